package state

import (
	"encoding/json"
	"slices"
)

var nullText = json.RawMessage("null")

// value is a JSON value that is opened only as far as an op reaches into it.
type value struct {
	raw     json.RawMessage // its text, if obj is nil
	obj     *object         // its members, once opened
	missing bool            // a document that does not exist
	broken  bool            // a document whose text is not JSON
}

// object is an opened object.
type object struct {
	members []*member
	index   map[string]*member // only of large objects
}

// member is a member of an opened object.
type member struct {
	quoted []byte // its name as written
	name   string
	value  value
}

// indexFrom is the number of members from which an object is looked up by a map.
const indexFrom = 16

func (v *value) kind() kind {
	switch {
	case v.broken:
		return kindNone
	case v.obj != nil:
		return kindObject
	}
	return kindOf(v.raw)
}

func (v *value) kindName() string { return kindName(v.kind()) }

// replace gives v another text.
func (v *value) replace(raw json.RawMessage) { *v = value{raw: raw} }

// open gives access to the members of an object; a missing value becomes {}.
func (v *value) open() *object {
	if v.obj == nil {
		if v.missing {
			*v = value{obj: &object{}}
		} else {
			*v = value{obj: parseObject(v.raw)}
		}
	}
	return v.obj
}

// object is open for a value that gives way to {} if it is no object.
func (v *value) object() *object {
	if !v.missing && v.kind() != kindObject {
		v.replace(json.RawMessage("{}"))
	}
	return v.open()
}

// lookup is a member of an object, nil if there is none; a missing value stays missing.
func (v *value) lookup(name string) *value {
	if v.missing {
		return nil
	}
	return v.open().get(name)
}

// plant sets the value at path and makes the objects on the way that are not there yet. What is there must be objects.
func (v *value) plant(path []string, raw json.RawMessage) {
	obj := v.open()
	for _, segment := range path[:len(path)-1] {
		next := obj.get(segment)
		if next == nil {
			next = obj.put(segment, json.RawMessage("{}"))
		}
		obj = next.open()
	}
	obj.put(path[len(path)-1], raw)
}

// text is the JSON text of v.
func (v *value) text() json.RawMessage {
	if v.obj == nil {
		return v.raw
	}
	return v.appendTo(nil)
}

func (v *value) appendTo(dst []byte) []byte {
	if v.obj == nil {
		return append(dst, v.raw...)
	}
	dst = append(dst, '{')
	for i, m := range v.obj.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, m.quoted...), ':')
		dst = m.value.appendTo(dst)
	}
	return append(dst, '}')
}

func (o *object) find(name string) *member {
	if len(o.members) < indexFrom {
		for _, m := range o.members {
			if m.name == name {
				return m
			}
		}
		return nil
	}
	if o.index == nil {
		o.index = make(map[string]*member, len(o.members))
		for _, m := range o.members {
			o.index[m.name] = m
		}
	}
	return o.index[name]
}

func (o *object) get(name string) *value {
	if m := o.find(name); m != nil {
		return &m.value
	}
	return nil
}

// put sets a member: in place, or as the last one.
func (o *object) put(name string, raw json.RawMessage) *value {
	m := o.find(name)
	if m == nil {
		m = o.add(quote(name), name)
	}
	m.value.replace(raw)
	return &m.value
}

func (o *object) add(quoted []byte, name string) *member {
	m := &member{quoted: quoted, name: name}
	o.members = append(o.members, m)
	if o.index != nil {
		o.index[name] = m
	}
	return m
}

func (o *object) delete(name string) {
	m := o.find(name)
	if m == nil {
		return
	}
	o.members = slices.DeleteFunc(o.members, func(other *member) bool { return other == m })
	delete(o.index, name)
}
