package embedded

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
)

// boltMeta is a meta page.
type boltMeta struct {
	pageSize, root, freelist, pages, tx uint64
}

// readMeta gives the newer of the two meta pages. bbolt would go on with one
// alone, and so without the last commit if the other was the newer: as a page
// head cannot be torn by the end of a process, that is refused.
func readMeta(f io.ReaderAt, size uint64) (boltMeta, error) {
	first, err := metaAt(f, 0, size)
	if err != nil {
		return boltMeta{}, findSecond(f, size, err)
	}
	second, err := metaAt(f, first.pageSize, size)
	if err != nil {
		return boltMeta{}, err
	}
	if second.tx > first.tx {
		first, second = second, first
	}
	if first.tx != second.tx+1 {
		return boltMeta{}, errors.New("the meta pages do not follow each other")
	}
	if first.pages < 4 || first.pages > size { // so that a product cannot overflow
		return boltMeta{}, errors.New("meta page with an impossible size")
	}
	return first, nil
}

var (
	errMeta    = errors.New("one of the two meta pages is damaged, and the last commit may be lost with it")
	errNoMetas = errors.New("no meta page")
)

// findSecond tells a file whose first meta page is damaged from one that never
// had any. Where the second stands only the first tells.
func findSecond(f io.ReaderAt, size uint64, err error) error {
	if !errors.Is(err, errMeta) {
		return err
	}
	for n := uint64(minPageSize); n <= maxPageSize; n *= 2 {
		_, err := metaAt(f, n, size)
		if err == nil {
			return errMeta
		}
		if !errors.Is(err, errMeta) {
			return err
		}
	}
	return errNoMetas
}

func metaAt(f io.ReaderAt, offset, size uint64) (boltMeta, error) {
	var page [pageHeader + metaSize]byte
	if offset+uint64(len(page)) > size {
		return boltMeta{}, errMeta
	}
	if _, err := f.ReadAt(page[:], int64(offset)); err != nil {
		return boltMeta{}, err
	}
	m, ok := parseMeta(page[pageHeader:])
	if !ok || offset != 0 && offset != m.pageSize {
		return boltMeta{}, errMeta
	}
	if p := parsePage(page[:]); p.id != offset/m.pageSize || p.flags != metaPage || p.count != 0 || p.overflow != 0 {
		return boltMeta{}, errMeta
	}
	return m, nil
}

func parseMeta(b []byte) (boltMeta, bool) {
	ne := binary.NativeEndian
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8]) // a hash never fails
	m := boltMeta{
		pageSize: uint64(ne.Uint32(b[8:])),
		root:     ne.Uint64(b[16:]),
		freelist: ne.Uint64(b[32:]),
		pages:    ne.Uint64(b[40:]),
		tx:       ne.Uint64(b[48:]),
	}
	ok := ne.Uint32(b) == boltMagic && ne.Uint32(b[4:]) == boltVersion && ne.Uint64(b[56:]) == h.Sum64()
	return m, ok && m.pageSize >= minPageSize && m.pageSize <= maxPageSize
}
