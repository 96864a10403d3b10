package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// The form of a bbolt file, version 2. Numbers are in the order of the machine.
const (
	pageHead    = 8 + 2 + 2 + 4 // id, flags, count, overflow
	elementSize = 16
	bucketHead  = 8 + 8           // root page, sequence
	metaSum     = 4*4 + 2*8 + 3*8 // what a meta page's checksum covers
	metaSize    = pageHead + metaSum + 8
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	branchPage   = 1
	leafPage     = 2
	freelistPage = 16
	noFreelist   = 1<<64 - 1
	bucketFlag   = 1
	newTx        = 1 // of the newer meta page of a file that nothing was stored in
)

var native = binary.NativeEndian

// pages are the bytes of a database file.
type pages struct {
	data    []byte
	size    uint64 // of a page
	high    uint64 // pages from here on are not used
	seen    []bool // by page
	buckets []string
	value   func(key, value []byte) error // nil: any
}

// verifyPages checks that the file of a database is one tree of pages, each in the form
// that it was written in. It finds each bit that is changed in what holds the tree
// together, and in the names of the buckets, which would be made anew. Keys and values are
// for value to check, or else for those who read them. It wraps ErrDamaged.
//
// A meta page that is not right is refused although the other one would do: going back to
// that would silently forget what was stored last.
func verifyPages(data []byte, value func(key, value []byte) error) error {
	m, p, err := openPages(data)
	if err == nil {
		p.value = value
		err = p.noFreelist(m.freelist)
	}
	if err == nil && m.tx > newTx {
		err = p.tree(m.root, nil, nil, bucketFlag)
	}
	if err == nil && m.tx > newTx && !slices.Equal(p.buckets, []string{"conf", "logs"}) {
		err = fmt.Errorf("buckets %q", p.buckets)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// meta is what a meta page says.
type meta struct{ pageSize, root, freelist, high, tx uint64 }

func parseMeta(b []byte) (m meta, ok bool) {
	if len(b) < metaSize {
		return m, false
	}
	b = b[pageHead:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSum]) // never fails
	m = meta{
		pageSize: uint64(native.Uint32(b[8:])), root: native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]), high: native.Uint64(b[40:]), tx: native.Uint64(b[48:]),
	}
	return m, native.Uint32(b) == boltMagic && native.Uint32(b[4:]) == boltVersion &&
		native.Uint64(b[metaSum:]) == h.Sum64() && m.pageSize >= metaSize
}

// openPages reads both meta pages, and returns the newer one.
func openPages(data []byte) (newer meta, p *pages, err error) {
	first, ok := parseMeta(data)
	if !ok {
		return newer, nil, fmt.Errorf("meta page 0 is not right")
	}
	second, ok := parseMeta(data[min(first.pageSize, uint64(len(data))):])
	if !ok || second.pageSize != first.pageSize {
		return newer, nil, fmt.Errorf("meta page 1 is not right")
	}
	newer = first
	if second.tx > first.tx {
		newer = second
	}
	if newer.high > uint64(len(data))/newer.pageSize {
		return newer, nil, fmt.Errorf("it has %d bytes for %d pages", len(data), newer.high)
	}
	return newer, &pages{
		data: data, size: newer.pageSize, high: newer.high,
		seen: make([]bool, newer.high),
	}, nil
}

// noFreelist checks that there is no list of free pages, or an empty one, which a file has
// before the first change to it.
func (p *pages) noFreelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	b, err := p.page(id)
	if err == nil && (native.Uint16(b[8:]) != freelistPage || native.Uint16(b[10:]) != 0) {
		err = fmt.Errorf("page %d: not an empty list of free pages", id)
	}
	return err
}

// page returns the bytes of a page with those that it overflows into, each once.
func (p *pages) page(id uint64) ([]byte, error) {
	if id < 2 || id >= p.high {
		return nil, fmt.Errorf("page %d: outside of the file", id)
	}
	b := p.data[id*p.size:]
	end := id + uint64(native.Uint32(b[12:])) + 1
	if native.Uint64(b) != id || end > p.high {
		return nil, fmt.Errorf("page %d: says that it is page %d up to page %d", id, native.Uint64(b), end)
	}
	for i := id; i < end; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("page %d: used twice", i)
		}
		p.seen[i] = true
	}
	return b[:(end-id)*p.size], nil
}

// tree checks a page and those below it, whose keys are at least low and less than high;
// nil is no bound. The elements of its leaves have the given flags: the tree of the root
// holds buckets, and a bucket none.
func (p *pages) tree(id uint64, low, high []byte, flags uint32) error {
	b, err := p.page(id)
	if err != nil {
		return err
	}
	elements, _, err := parseElements(b)
	if err == nil && len(elements) == 0 {
		err = errors.New("no elements") // a bucket that is empty has no page
	}
	if err == nil {
		err = ordered(elements, low, high)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	for i, e := range elements {
		switch {
		case e.branch:
			end := high
			if i+1 < len(elements) {
				end = elements[i+1].key
			}
			err = p.tree(e.child, e.key, end, flags)
		case e.flags != flags:
			err = fmt.Errorf("page %d: flags %x of element %d", id, e.flags, i)
		case flags == bucketFlag:
			p.buckets = append(p.buckets, string(e.key))
			err = p.bucket(e.value)
		case p.value != nil:
			err = p.value(e.key, e.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a bucket, which is a tree of its own or a small page within b.
func (p *pages) bucket(b []byte) error {
	if len(b) < bucketHead {
		return fmt.Errorf("bucket of %d bytes", len(b))
	}
	if root := native.Uint64(b); root != 0 {
		return p.tree(root, nil, nil, 0)
	}
	elements, end, err := parseElements(b[bucketHead:])
	if err == nil && end != len(b)-bucketHead {
		err = fmt.Errorf("%d bytes in %d", end, len(b)-bucketHead)
	}
	if err == nil {
		err = ordered(elements, nil, nil)
	}
	for _, e := range elements {
		if err == nil && p.value != nil {
			err = p.value(e.key, e.value)
		}
	}
	if err != nil {
		return fmt.Errorf("bucket within a page: %w", err)
	}
	return nil
}

// element is one of a page: of a branch it has a child, of a leaf a value.
type element struct {
	key, value []byte
	branch     bool
	child      uint64
	flags      uint32
}

// parseElements takes a page apart. Keys and values lie behind the elements without room
// between, so that a changed count or length shows. It returns where they end, too.
func parseElements(b []byte) (elements []element, end int, err error) {
	if len(b) < pageHead {
		return nil, 0, fmt.Errorf("%d bytes", len(b))
	}
	flags, count := native.Uint16(b[8:]), int(native.Uint16(b[10:]))
	next := pageHead + count*elementSize
	if flags != branchPage && flags != leafPage || next > len(b) {
		return nil, 0, fmt.Errorf("type %d with %d elements", flags, count)
	}
	elements = make([]element, count)
	for i := range elements {
		at := pageHead + i*elementSize
		pos, keySize, valueSize := parseElement(b[at:], flags, &elements[i])
		if at+pos != next || keySize > len(b)-next || valueSize > len(b)-next-keySize {
			return nil, 0, fmt.Errorf("element %d is not where it belongs", i)
		}
		elements[i].key = b[next : next+keySize]
		elements[i].value = b[next+keySize : next+keySize+valueSize]
		next += keySize + valueSize
	}
	return elements, next, nil
}

func parseElement(b []byte, flags uint16, e *element) (pos, keySize, valueSize int) {
	if flags == branchPage {
		e.branch, e.child = true, native.Uint64(b[8:])
		return int(native.Uint32(b)), int(native.Uint32(b[4:])), 0
	}
	e.flags = native.Uint32(b)
	return int(native.Uint32(b[4:])), int(native.Uint32(b[8:])), int(native.Uint32(b[12:]))
}

func ordered(elements []element, low, high []byte) error {
	for i, e := range elements {
		if i == 0 && low != nil && bytes.Compare(e.key, low) < 0 ||
			i > 0 && bytes.Compare(e.key, elements[i-1].key) <= 0 ||
			high != nil && bytes.Compare(e.key, high) >= 0 {
			return fmt.Errorf("key %d is out of order", i)
		}
	}
	return nil
}
