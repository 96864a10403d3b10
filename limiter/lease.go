package limiter

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Bounds of a lease. An Engine grants nothing for a time below MinHold.
const (
	MinHold   = 20 * time.Millisecond // the shortest validity of a lease
	MaxHold   = time.Second           // the longest validity of a lease
	MaxLessee = 64                    // the maximum length of the name of a lessee in bytes
)

// Draw makes a Request draw units of a limit as a lease, or return units of a lease. The lessee may spend the units of a
// lease without a further request while the lease is valid. The fields Granted and Valid are results; an Engine does not
// change the others, and keeps no reference to the Draw.
type Draw struct {
	ID     uint64 // random, not 0: identifies the lease within its key
	User   string // owner of the lease: a return by another user credits nothing
	Lessee string // name of the lessee, 1..MaxLessee bytes: the rest of a limit is shared among lessees
	// Hold is the requested validity, MinHold..MaxHold. The validity that is granted may be shorter.
	Hold time.Duration
	// Return makes the request return Quantity unused units of the lease ID. The Kind and the Limit of the request are then
	// ignored: the lease stores those of its draw. The Decision on a return has no field set.
	Return bool
	// Of is the number of units of the lease before a return. A return credits nothing if the lease has another number.
	// Therefore a return that is executed twice, for example because a client library has repeated the command, is credited
	// once. 0 omits this check.
	Of int64
	// Relaxed charges the units at the time of the draw instead of the end of the lease. The limit may then admit units in
	// addition: at most those that it restores within Hold.
	Relaxed bool

	Granted int64 // result: the units of a new lease, 0..Quantity, or the units credited by a return
	// Valid is a result: the validity of a new lease, or the time that is left of the lease of a return; 0 if Granted is 0.
	// It starts when the lessee sends the request, and the lessee shortens it by 1/500 for the difference between clocks.
	// The clock of the lessee must include suspended time.
	Valid time.Duration
}

// Lease describes an outstanding lease.
type Lease struct {
	Key          []byte // valid only during the call that passes the Lease
	Kind         Kind   // of the limit, without leases
	ID           uint64
	User, Lessee string
	Units        int64         // granted and not returned
	Left         time.Duration // time until the lease ends; above 0
	// Relaxed is 0 for a strict lease. Otherwise the limit may admit in addition the units that it restores within this time.
	// It is the time from the draw to the end of the lease or, if the rate of the limit has changed, the time that restores as
	// many units at the present rate.
	Relaxed time.Duration
}

// LeaseUsage holds the outstanding leases of an Engine, and counters since the Engine was started.
type LeaseUsage struct {
	Leases, Units int64 // outstanding leases, and their units
	// Relaxed is the number of outstanding relaxed leases, and Bound the longest of their Lease.Relaxed.
	Relaxed int64
	Bound   time.Duration

	Granted  uint64 // units granted by draws
	Returned uint64 // units credited by returns
	// Stranded is the number of units of leases that have ended without a return. Units that a lessee has spent are
	// included.
	Stranded uint64
}

// Leases provides access to the outstanding leases of an Engine.
type Leases interface {
	// Leases calls yield for each outstanding lease until yield returns false. The function yield must not call the Engine.
	Leases(yield func(Lease) bool)
	// LeaseUsage returns the counters of the leases.
	LeaseUsage() LeaseUsage
}

// leaseDigits is the number of hexadecimal digits in the name of a lease.
const leaseDigits = 16

// AppendLeaseID appends the name that identifies a lease for clients: the ID of the lease in hexadecimal digits, a colon, and
// the key.
func AppendLeaseID(dst []byte, id uint64, key []byte) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], id)
	return append(append(hex.AppendEncode(dst, b[:]), ':'), key...)
}

// ParseLeaseID returns the ID and the key in the name of a lease. The key refers to the memory of the name. ok is false if
// the name is not one that AppendLeaseID can return.
func ParseLeaseID(name []byte) (id uint64, key []byte, ok bool) {
	if len(name) < leaseDigits+1 || name[leaseDigits] != ':' {
		return 0, nil, false
	}
	var b [8]byte
	if _, err := hex.Decode(b[:], name[:leaseDigits]); err != nil || bytes.ContainsAny(name[:leaseDigits], "ABCDEF") {
		return 0, nil, false
	}
	id = binary.BigEndian.Uint64(b[:])
	return id, name[leaseDigits+1:], id != 0
}
