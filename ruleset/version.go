package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxText is the largest size of a text, in bytes.
const MaxText = 16 << 20

// Version describes a version of the rules. The numbers of versions begin with 1; number 0 has no rules.
type Version struct {
	Number  uint64    `json:"number"`
	Author  string    `json:"author"`  // name and address of the client, or name of the file; at most 128 bytes
	Time    time.Time `json:"time"`    // wall time of the proposal on the node that has appended the version to the log
	Hash    string    `json:"hash"`    // of the text, see HashOf
	Size    int       `json:"size"`    // of the text, in bytes
	Limits  int       `json:"limits"`  // number of limits in all domains
	Summary string    `json:"summary"` // difference from the version before, such as "+1 -0 ~1: +shop/login ~shop/api(allow,soft)"
}

// NoRules returns the error of a server without rules, with the remedy. A sidecar loads its rules from upstream, the addresses of
// its upstream; it is empty for other servers.
func NoRules(upstream []string) error {
	if len(upstream) == 0 {
		return ErrNoRules
	}
	return fmt.Errorf("no rules are loaded: set them on the upstream, %s, whose user of this sidecar needs +cl.rules|history and +cl.rules|get", strings.Join(upstream, ","))
}

// HashOf returns the SHA-256 sum of a text, in hexadecimal digits.
func HashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Errors of proposals. They are wrapped in errors that name the version.
var (
	ErrTooLarge = errors.New("the rules are larger than 16 MiB; divide them over several clusters")
	ErrBase     = errors.New("the rules have been changed since; read them again and repeat the change")
	ErrVersion  = errors.New("the history has no such version; CL.RULES HISTORY lists the versions")
	ErrNoText   = errors.New("the text of this version is no longer stored; only the newest 16 versions have their texts")
	ErrNoRules  = errors.New("no rules are loaded: start the server with --rules FILE, or use CL.RULES SET")
	ErrDamaged  = errors.New("the stored text of the rules is damaged; set the rules again")
)
