package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The parts of the bbolt file format that a check needs (bbolt, version 2 of
// the file format; numbers are in the byte order of the machine).
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader   = 16 // id uint64, flags uint16, count uint16, overflow uint32
	pageElement  = 16 // branch: pos, ksize uint32, page uint64; leaf: flags, pos, ksize, vsize uint32
	bucketHeader = 16 // root uint64, sequence uint64
	metaSize     = 64

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10

	bucketFlag  = 0x01
	noFreelist  = ^uint64(0)
	manyCount   = 0xFFFF
	maxDepth    = 64
	minPageSize = 1 << 10
	maxPageSize = 16 << 20
)

// fileCheck walks a data file without mapping it, so that no damage can do
// more than give an error.
type fileCheck struct {
	f      io.ReaderAt
	meta   boltMeta
	seen   []bool // by page
	record func(bucket string, key, value []byte) error
}

// checkFile checks the structure of a bbolt file and every record in it. An
// empty file is fine: it is new.
func checkFile(f io.ReaderAt, size uint64, record func(bucket string, key, value []byte) error) error {
	if size == 0 {
		return nil
	}
	meta, err := readMeta(f, size)
	if err != nil {
		return err
	}
	if meta.pages*meta.pageSize > size {
		return fmt.Errorf("truncated: %d bytes of %d are there", size, meta.pages*meta.pageSize)
	}
	c := &fileCheck{f: f, meta: meta, seen: make([]bool, meta.pages), record: record}
	if err := c.tree("", meta.root, nil, nil, 0); err != nil {
		return err
	}
	return c.freelist()
}

// boltPage is a page with those that it overflows into.
type boltPage struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	b        []byte // with the header
}

// parsePage reads the header that b starts with.
func parsePage(b []byte) boltPage {
	ne := binary.NativeEndian
	return boltPage{
		id: ne.Uint64(b), flags: ne.Uint16(b[8:]), count: int(ne.Uint16(b[10:])), overflow: uint64(ne.Uint32(b[12:])), b: b,
	}
}

// page reads a page that nothing else may refer to.
func (c *fileCheck) page(id uint64) (boltPage, error) {
	if id < 2 || id >= c.meta.pages {
		return boltPage{}, fmt.Errorf("page %d is out of bounds", id)
	}
	b := make([]byte, c.meta.pageSize)
	if _, err := c.f.ReadAt(b, int64(id*c.meta.pageSize)); err != nil {
		return boltPage{}, fmt.Errorf("page %d: %w", id, err)
	}
	p := parsePage(b)
	if p.id != id || p.overflow >= c.meta.pages-id {
		return boltPage{}, fmt.Errorf("page %d is not a page", id)
	}
	for n := id; n <= id+p.overflow; n++ {
		if c.seen[n] {
			return boltPage{}, fmt.Errorf("page %d is used twice", n)
		}
		c.seen[n] = true
	}
	if p.overflow == 0 {
		return p, nil
	}
	p.b = make([]byte, (p.overflow+1)*c.meta.pageSize)
	if _, err := c.f.ReadAt(p.b, int64(id*c.meta.pageSize)); err != nil {
		return boltPage{}, fmt.Errorf("page %d: %w", id, err)
	}
	return p, nil
}

// tree checks the pages of a bucket below a page. The first key must be low and
// all must be below high; nil is no bound. Only >= low would not do: bbolt looks
// for a page in its parent by its first key, and if that differs keeps the element
// of the old page beside that of the new.
func (c *fileCheck) tree(bucket string, id uint64, low, high []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d lies too deep", id)
	}
	p, err := c.page(id)
	if err != nil {
		return err
	}
	switch p.flags {
	case leafPage:
		return c.leaf(bucket, p, low, high, depth)
	case branchPage:
		return c.branch(bucket, p, low, high, depth)
	}
	return fmt.Errorf("page %d has the type %#x", id, p.flags)
}

func (c *fileCheck) branch(bucket string, p boltPage, low, high []byte, depth int) error {
	ne := binary.NativeEndian
	var keys [][]byte
	var children []uint64
	var err error
	next := p.data()
	for i := range p.count {
		e, ok := p.element(i)
		if !ok {
			return fmt.Errorf("page %d: element %d is out of bounds", p.id, i)
		}
		key, ok := cut(e, ne.Uint32(e), uint64(ne.Uint32(e[4:])))
		if !ok {
			return fmt.Errorf("page %d: key %d is out of bounds", p.id, i)
		}
		if next, err = p.packed(i, ne.Uint32(e), next, len(key)); err != nil {
			return err
		}
		keys = append(keys, key)
		children = append(children, ne.Uint64(e[8:]))
	}
	if len(keys) == 0 {
		return fmt.Errorf("page %d: a branch without children", p.id)
	}
	if err := ordered(p, keys, low, high); err != nil {
		return err
	}
	for i, child := range children {
		end := high
		if i+1 < len(keys) {
			end = keys[i+1]
		}
		if err := c.tree(bucket, child, keys[i], end, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *fileCheck) leaf(bucket string, p boltPage, low, high []byte, depth int) error {
	keys, _, err := c.elements(bucket, p, depth)
	if err != nil {
		return err
	}
	return ordered(p, keys, low, high)
}

// elements checks what stands in a leaf, and gives its keys and where it ends.
func (c *fileCheck) elements(bucket string, p boltPage, depth int) (keys [][]byte, end int, err error) {
	ne := binary.NativeEndian
	if e, ok := p.element(0); ok && p.count == 0 && !bytes.Equal(e[:pageElement], make([]byte, pageElement)) {
		return nil, 0, fmt.Errorf("page %d: empty, and has an element", p.id)
	}
	end = p.data()
	for i := range p.count {
		e, ok := p.element(i)
		if !ok {
			return nil, 0, fmt.Errorf("page %d: element %d is out of bounds", p.id, i)
		}
		ksize, vsize := uint64(ne.Uint32(e[8:])), uint64(ne.Uint32(e[12:]))
		both, ok := cut(e, ne.Uint32(e[4:]), ksize+vsize)
		if !ok {
			return nil, 0, fmt.Errorf("page %d: element %d is out of bounds", p.id, i)
		}
		if end, err = p.packed(i, ne.Uint32(e[4:]), end, len(both)); err != nil {
			return nil, 0, err
		}
		key, value := both[:ksize], both[ksize:]
		keys = append(keys, key)
		if err := c.element(bucket, ne.Uint32(e), key, value, depth); err != nil {
			return nil, 0, fmt.Errorf("page %d: %w", p.id, err)
		}
	}
	return keys, end, nil
}

// element checks an element of a leaf. At the top all are buckets, and below all
// are records.
func (c *fileCheck) element(bucket string, flags uint32, key, value []byte, depth int) error {
	switch {
	case bucket == "" && flags == bucketFlag && len(key) > 0:
		return c.bucket(string(key), value, depth)
	case bucket != "" && flags == 0:
		return c.record(bucket, key, value)
	}
	return fmt.Errorf("element %q of bucket %q has the flags %#x", key, bucket, flags)
}

// bucket checks a bucket by its entry in the top one.
func (c *fileCheck) bucket(name string, value []byte, depth int) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("bucket %q: entry too short", name)
	}
	page := value[bucketHeader:]
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		if len(page) != 0 {
			return fmt.Errorf("bucket %q: entry too long", name)
		}
		return c.tree(name, root, nil, nil, depth+1)
	}
	// A small bucket has its only page in the entry, with no id: bbolt would
	// free the page of any other id with the next write.
	if len(page) < pageHeader {
		return fmt.Errorf("bucket %q: no page", name)
	}
	p := parsePage(page)
	if p.id != 0 || p.flags != leafPage || p.overflow != 0 {
		return fmt.Errorf("bucket %q: no page of a small bucket", name)
	}
	keys, end, err := c.elements(name, p, depth+1)
	if err != nil {
		return fmt.Errorf("bucket %q: %w", name, err)
	}
	if end != len(page) {
		return fmt.Errorf("bucket %q: its page ends at %d of %d bytes", name, end, len(page))
	}
	return ordered(p, keys, nil, nil)
}

// freelist checks, after all trees, that every page is either in use or free. A
// page that is neither has been cut off from its tree.
func (c *fileCheck) freelist() error {
	if c.meta.freelist == noFreelist {
		return nil // bbolt takes what is not in use
	}
	p, err := c.page(c.meta.freelist)
	if err != nil {
		return err
	}
	if p.flags != freelistPage {
		return fmt.Errorf("page %d has the type %#x, not that of a free list", p.id, p.flags)
	}
	ids, n := p.b[pageHeader:], uint64(p.count)
	if n == manyCount {
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids))/8 {
		return fmt.Errorf("page %d: free list out of bounds", p.id)
	}
	for i := range n {
		id := binary.NativeEndian.Uint64(ids[8*i:])
		if id < 2 || id >= c.meta.pages || c.seen[id] {
			return fmt.Errorf("page %d is free and in use", id)
		}
		c.seen[id] = true
	}
	for id := uint64(2); id < c.meta.pages; id++ {
		if !c.seen[id] {
			return fmt.Errorf("page %d is neither free nor in use", id)
		}
	}
	return nil
}

// element is the bytes from an element's header to the end of the page.
func (p boltPage) element(i int) ([]byte, bool) {
	at := pageHeader + i*pageElement
	if at+pageElement > len(p.b) {
		return nil, false
	}
	return p.b[at:], true
}

// data is where the first element's key stands.
func (p boltPage) data() int { return pageHeader + p.count*pageElement }

// packed checks that an element's data stands at want, and gives where the next
// must stand. bbolt writes elements without gaps (common.WriteInodeToPage), so
// that a changed count, position or size shows.
func (p boltPage) packed(i int, pos uint32, want, size int) (int, error) {
	if pageHeader+i*pageElement+int(pos) != want {
		return 0, fmt.Errorf("page %d: element %d is out of place", p.id, i)
	}
	return want + size, nil
}

// cut is n bytes at pos.
func cut(b []byte, pos uint32, n uint64) ([]byte, bool) {
	end := uint64(pos) + n
	if end > uint64(len(b)) {
		return nil, false
	}
	return b[pos:end:end], true
}

// ordered checks the keys of a page, see tree.
func ordered(p boltPage, keys [][]byte, low, high []byte) error {
	if low != nil && (len(keys) == 0 || !bytes.Equal(keys[0], low)) {
		return fmt.Errorf("page %d: its first key is not that of its parent", p.id)
	}
	for i, k := range keys {
		if len(k) == 0 || i > 0 && bytes.Compare(keys[i-1], k) >= 0 || high != nil && bytes.Compare(k, high) >= 0 {
			return fmt.Errorf("page %d: key %d is out of order", p.id, i)
		}
	}
	return nil
}

// sealed are all buckets. Their values end with a checksum, see seal, but for the
// format version.
var sealed = map[string]func(key []byte) string{
	string(metaBucket):    metaWhat,
	string(stateBucket):   stateWhat,
	string(dueBucket):     plainWhat("due index"),
	string(streamBucket):  streamWhat,
	string(logBucket):     plainWhat("event log"),
	string(expiryBucket):  plainWhat("expiry index"),
	string(valueBucket):   plainWhat("value file"),
	string(blobBucket):    blobWhat,
	string(feedBucket):    feedWhat,
	string(queueBucket):   plainWhat("queue"),
	string(messageBucket): plainWhat("queue message"),
	string(receiveBucket): plainWhat("queue receive"),
	string(deadBucket):    plainWhat("dead letter"),
	string(dedupBucket):   plainWhat("dedup id"),
	string(timerBucket):   plainWhat("timer"),

	string(timerDueBucket): plainWhat("index of timers"),
}

func plainWhat(what string) func([]byte) string {
	return func(key []byte) string { return fmt.Sprintf("%s %q", what, key) }
}

// checkRecord checks the checksum of a value.
func checkRecord(bucket string, key, value []byte) error {
	what, ok := sealed[bucket]
	if !ok || bucket == string(metaBucket) && bytes.Equal(key, formatKey) {
		return nil // Whether they are known is told by the format.
	}
	if _, err := unseal(key, value); err != nil {
		return fmt.Errorf("%s: %w", what(key), err)
	}
	return nil
}
