package check

import (
	"fmt"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// Account compares what was charged on a key with what clients know of.
type Account struct {
	Acknowledged int64 // units charged for certain
	Open         int64 // units that may have been
	Used         int64 // units in use in the end
}

// Ledger adds up the charges on a key whose interval is so long that nothing came back, and of
// which remaining units are left. None of ops may give units back.
func Ledger(k *history.Key, ops []history.Op, remaining int64) Account {
	a := Account{Used: k.Limit() - remaining}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Charges():
			a.Acknowledged += o.Quantity
		case o.Outcome == history.Unknown:
			a.Open += o.Quantity
		}
	}
	return a
}

// Lost returns the units that were acknowledged and are not in use.
func (a Account) Lost() int64 { return max(0, a.Acknowledged-a.Used) }

// Extra returns the units that are in use although nobody can have asked for them.
func (a Account) Extra() int64 { return max(0, a.Used-a.Acknowledged-a.Open) }

func (a Account) String() string {
	return fmt.Sprintf("%d acknowledged, %d open, %d in use: %d lost, %d too many", a.Acknowledged, a.Open, a.Used, a.Lost(), a.Extra())
}
