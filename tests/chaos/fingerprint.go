package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/throttledhq/throttled/tests/chaos/check"
)

var errFingerprint = errors.New("invalid reply to CL.CLUSTER HASH")

// fingerprint queries the fingerprint of the node's state.
func (n *node) fingerprint() (check.Fingerprint, error) {
	r, err := askOnce(n.addr(), patience, "CL.CLUSTER", "HASH")
	if err != nil {
		return check.Fingerprint{}, err
	}
	f, err := readFingerprint(&r)
	f.Node = n.id
	return f, err
}

// readFingerprint reads a list of alternating names and values.
func readFingerprint(r *reply) (f check.Fingerprint, err error) {
	values := map[string]string{}
	for i := 0; i+1 < len(r.list); i += 2 {
		name, value := r.list[i].text, r.list[i+1]
		if values[name] = value.text; value.kind == ':' {
			values[name] = strconv.FormatInt(value.n, 10)
		}
	}
	index, err1 := strconv.ParseUint(values["index"], 10, 64)
	logTime, err2 := strconv.ParseUint(values["log-time"], 10, 64)
	keys, err3 := strconv.ParseInt(values["keys"], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil || values["sum"] == "" {
		return f, fmt.Errorf("%w: %v", errFingerprint, values)
	}
	return check.Fingerprint{Index: index, LogTime: logTime, Keys: keys, Sum: values["sum"]}, nil
}
