package check

import (
	"fmt"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// Account compares the units in use on a key with the units that clients charged according
// to their replies.
type Account struct {
	Acknowledged int64 // units certainly charged
	Open         int64 // units possibly charged
	Used         int64 // units in use at the end
}

// Ledger adds up the charges on a key whose emission interval is so long that no unit is restored
// during a run. The last argument is the number of units left at the end. None of ops may be a
// refund.
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

// Lost returns the number of acknowledged units that are not in use.
func (a Account) Lost() int64 { return max(0, a.Acknowledged-a.Used) }

// Extra returns the number of units in use that no request can account for.
func (a Account) Extra() int64 { return max(0, a.Used-a.Acknowledged-a.Open) }

// String lists all counts.
func (a Account) String() string {
	return fmt.Sprintf("%d acknowledged, %d open, %d in use: %d lost, %d too many", a.Acknowledged, a.Open, a.Used, a.Lost(), a.Extra())
}
