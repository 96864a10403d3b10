package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// The layout of a bbolt file, version 2. Numbers are in native byte order.
const (
	pageHead    = 8 + 2 + 2 + 4 // id, flags, count, overflow
	elementSize = 16
	bucketHead  = 8 + 8           // root page, sequence
	metaSum     = 4*4 + 2*8 + 3*8 // bytes covered by the checksum of a meta page
	metaSize    = pageHead + metaSum + 8
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	branchPage   = 1
	leafPage     = 2
	freelistPage = 16
	noFreelist   = 1<<64 - 1
	bucketFlag   = 1
	newTx        = 1 // number of the last transaction of a file in which nothing has been stored
)

var native = binary.NativeEndian

// pages is the content of a database file.
type pages struct {
	data      []byte
	size      uint64 // size of a page
	pageCount uint64 // number of pages in use
	seen      []bool // pages that have been visited
	buckets   []string
	value     func(key, value []byte) error // checks a stored value; nil: values are not checked
}

// verifyPages checks that a database file is a single tree of valid pages. It detects
// every changed bit in the structure of the tree and in the names of the buckets. (If the name of a bucket
// has changed, raft-boltdb does not find the bucket and silently creates an empty one.) If value is not nil,
// verifyPages calls it to check each key with its value. Otherwise keys and values are checked only when an
// entry is read. The error wraps ErrDamaged.
//
// A file with one valid and one invalid meta page is rejected. bbolt would use the valid page. If the invalid
// page is the newer one, the last transaction would silently be lost.
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
		err = fmt.Errorf("unexpected buckets %q", p.buckets)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// meta holds the fields of a meta page.
type meta struct{ pageSize, root, freelist, pageCount, tx uint64 }

func parseMeta(b []byte) (m meta, ok bool) {
	if len(b) < metaSize {
		return m, false
	}
	b = b[pageHead:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSum]) // never fails
	m = meta{
		pageSize: uint64(native.Uint32(b[8:])), root: native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]), pageCount: native.Uint64(b[40:]), tx: native.Uint64(b[48:]),
	}
	return m, native.Uint32(b) == boltMagic && native.Uint32(b[4:]) == boltVersion &&
		native.Uint64(b[metaSum:]) == h.Sum64() && m.pageSize >= metaSize
}

// openPages parses both meta pages and returns the newer one.
func openPages(data []byte) (newer meta, p *pages, err error) {
	first, ok := parseMeta(data)
	if !ok {
		return newer, nil, fmt.Errorf("meta page 0 is invalid")
	}
	second, ok := parseMeta(data[min(first.pageSize, uint64(len(data))):])
	if !ok || second.pageSize != first.pageSize {
		return newer, nil, fmt.Errorf("meta page 1 is invalid")
	}
	newer = first
	if second.tx > first.tx {
		newer = second
	}
	if newer.pageCount > uint64(len(data))/newer.pageSize {
		return newer, nil, fmt.Errorf("the file has %d bytes, too few for %d pages", len(data), newer.pageCount)
	}
	return newer, &pages{
		data: data, size: newer.pageSize, pageCount: newer.pageCount,
		seen: make([]bool, newer.pageCount),
	}, nil
}

// noFreelist checks that the file has no freelist, or an empty one. A file has an empty
// freelist before its first modification.
func (p *pages) noFreelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	b, err := p.page(id)
	if err == nil && (native.Uint16(b[8:]) != freelistPage || native.Uint16(b[10:]) != 0) {
		err = fmt.Errorf("page %d: the list of free pages is not empty", id)
	}
	return err
}

// page returns the bytes of a page with its overflow pages, and marks them as visited.
func (p *pages) page(id uint64) ([]byte, error) {
	if id < 2 || id >= p.pageCount {
		return nil, fmt.Errorf("page %d is outside the file", id)
	}
	b := p.data[id*p.size:]
	overflow := uint64(native.Uint32(b[12:]))
	end := id + overflow + 1
	if native.Uint64(b) != id || end > p.pageCount {
		return nil, fmt.Errorf("page %d: the header names page %d with %d overflow pages, in a file of %d pages", id, native.Uint64(b), overflow, p.pageCount)
	}
	for i := id; i < end; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		p.seen[i] = true
	}
	return b[:(end-id)*p.size], nil
}

// tree checks a page and its subtree. The keys must be at least low and less than high;
// nil means no bound. The elements of the leaves must have the given flags: bucketFlag in the root
// tree, and 0 in the tree of a bucket.
func (p *pages) tree(id uint64, low, high []byte, flags uint32) error {
	b, err := p.page(id)
	if err != nil {
		return err
	}
	elements, _, err := parseElements(b)
	if err == nil && len(elements) == 0 {
		err = errors.New("no elements") // an empty bucket has no page of its own
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
			err = fmt.Errorf("page %d: element %d has unexpected flags %x", id, i, e.flags)
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

// bucket checks a bucket. b is the value of the bucket in the root tree: it refers to a tree of
// separate pages, or contains the only page of the bucket.
func (p *pages) bucket(b []byte) error {
	if len(b) < bucketHead {
		return fmt.Errorf("the bucket has only %d bytes", len(b))
	}
	if root := native.Uint64(b); root != 0 {
		return p.tree(root, nil, nil, 0)
	}
	elements, end, err := parseElements(b[bucketHead:])
	if err == nil && end != len(b)-bucketHead {
		err = fmt.Errorf("the elements use %d of %d bytes", end, len(b)-bucketHead)
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

// element is an element of a page. It has a child in a branch page and a value in a leaf
// page.
type element struct {
	key, value []byte
	branch     bool
	child      uint64
	flags      uint32
}

// parseElements parses the elements of a page and returns the offset of their end. It
// checks that keys and values follow the elements without gaps, and thus detects a changed count or
// length.
func parseElements(b []byte) (elements []element, end int, err error) {
	if len(b) < pageHead {
		return nil, 0, fmt.Errorf("the page has only %d bytes", len(b))
	}
	flags, count := native.Uint16(b[8:]), int(native.Uint16(b[10:]))
	next := pageHead + count*elementSize
	if flags != branchPage && flags != leafPage || next > len(b) {
		return nil, 0, fmt.Errorf("a page of type %d cannot have %d elements", flags, count)
	}
	elements = make([]element, count)
	for i := range elements {
		at := pageHead + i*elementSize
		pos, keySize, valueSize := parseElement(b[at:], flags, &elements[i])
		if at+pos != next || keySize > len(b)-next || valueSize > len(b)-next-keySize {
			return nil, 0, fmt.Errorf("element %d is misplaced", i)
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
