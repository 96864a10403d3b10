package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const everything = "cl.throttle cl.check ttl exists client client|id client|kill config config|set"

// hashOfSecret is the SHA-256 digest of "secret".
const hashOfSecret = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

// TestCommandRules checks which commands rules permit, and how they are listed.
func TestCommandRules(t *testing.T) {
	for _, test := range []struct{ rules, commands, want string }{
		{"", "-@all", ""},
		{"+cl.throttle", "-@all +cl.throttle", "cl.throttle"},
		{"+CL.Throttle", "-@all +cl.throttle", "cl.throttle"},
		{"+@limits", "-@all +@limits", "cl.throttle cl.check"},
		{"+@limits -cl.check", "-@all +@limits -cl.check", "cl.throttle"},
		{"+@limits -cl.check +@limits", "-@all -cl.check +@limits", "cl.throttle cl.check"},
		{"+client", "-@all +client", "client client|id client|kill"},
		{"+client -client|kill", "-@all +client -client|kill", "client client|id"},
		{"+client|id", "-@all +client|id", "client|id"},
		{"+client|id -client|id +client", "-@all +client", "client client|id client|kill"},
		{"+@admin", "-@all +@admin", "client|kill config|set"},
		{"+@string", "-@all +@string", ""},
		{"+@all", "+@all", everything},
		{"allcommands -config|set", "+@all -config|set", strings.Replace(everything, " config|set", "", 1)},
		{"+@all -@admin", "+@all -@admin", "cl.throttle cl.check ttl exists client client|id config"},
		{"+ttl +@all", "+@all", everything},
		{"+@all -@all", "-@all", ""},
		{"+@all nocommands +ttl", "-@all +ttl", "ttl"},
		{"+@all reset +ttl", "-@all +ttl", "ttl"},
	} {
		u := mustApply(t, test.rules)
		if got := u.Commands(); got != test.commands {
			t.Errorf("%q: the rules are %q, want %q", test.rules, got, test.commands)
		}
		if got := runs(u); got != test.want {
			t.Errorf("%q: permits %q, want %q", test.rules, got, test.want)
		}
		if !u.MayRun(id("auth")) {
			t.Errorf("%q: AUTH is not permitted", test.rules)
		}
		if again := mustApply(t, u.Commands()); runs(again) != test.want {
			t.Errorf("%q: the listed rules permit %q, want %q", test.rules, runs(again), test.want)
		}
	}
}

// TestKeyPatterns checks which keys rules permit.
func TestKeyPatterns(t *testing.T) {
	for _, test := range []struct {
		rules, keys string
		key         string
		access      Access
		want        bool
	}{
		{"", "", "k", Read, false},
		{"", "", "k", 0, false},
		{"~app:*", "~app:*", "app:1", Read | Write, true},
		{"~app:*", "~app:*", "app", Read, false},
		{"~app:*", "~app:*", "APP:1", Read, false},
		{"~*", "~*", "anything", Read | Write, true},
		{"allkeys", "~*", "anything", Write, true},
		{"%RW~*", "~*", "anything", Write, true},
		{"%R~a*", "%R~a*", "a", Read, true},
		{"%R~a*", "%R~a*", "a", Write, false},
		{"%R~a*", "%R~a*", "a", 0, true},
		{"%w~a*", "%W~a*", "a", Write, true},
		{"%w~a*", "%W~a*", "a", Read, false},
		{"%w~a*", "%W~a*", "a", Read | Write, false},
		{"%R~a* %W~a*", "~a*", "a", Read | Write, true},
		{"%R~* %W~*", "~*", "anything", Read | Write, true},
		{"%R~a* %W~ab", "%R~a* %W~ab", "ab", Read | Write, false},
		{"~a ~b", "~a ~b", "b", Read, true},
		{"~* resetkeys ~a", "~a", "b", Read, false},
		{"~", "~", "", Read, true},
	} {
		u := mustApply(t, test.rules)
		if got := u.Keys(); got != test.keys {
			t.Errorf("%q: the patterns are %q, want %q", test.rules, got, test.keys)
		}
		if got := u.MayAccess([]byte(test.key), test.access); got != test.want {
			t.Errorf("%q: access %d to %q: %t, want %t", test.rules, test.access, test.key, got, test.want)
		}
	}
}

// TestAllKeysInTwoRules checks that the text of a user with separate rules for reading and writing all keys can be parsed.
func TestAllKeysInTwoRules(t *testing.T) {
	u := mustApply(t, "%R~* %W~*")
	_, err := u.Apply(testCatalog, "~a")
	wrong(t, err, ErrAllKeys)
	if again := mustApply(t, u.Keys()); !again.keys.all || !u.keys.all {
		t.Errorf("all keys: %t, and %t after the rules are parsed again", u.keys.all, again.keys.all)
	}
}

// TestApplyKeepsLists checks that two changes of a user affect neither the user nor each other.
func TestApplyKeepsLists(t *testing.T) {
	const rules = "%R~a ~b ~c &a &b &c domain:a domain:b domain:c"
	u := mustApply(t, rules)
	text := u.Text()
	var changed []*User
	for _, name := range []string{"x", "y"} {
		x, err := u.Apply(testCatalog, "%W~a", "~"+name, "&"+name, "domain:"+name)
		if err != nil {
			t.Fatal(err)
		}
		changed = append(changed, x)
	}
	if u.Text() != text || changed[0].Keys() != "~a ~b ~c ~x" || changed[0].Channels()+changed[0].Domains() != "&a &b &c &xdomain:a domain:b domain:c domain:x" {
		t.Errorf("the user is %q, the first change is %q", u.Text(), changed[0].Text())
	}
}

// TestChannelsAndDomains checks which channels and domains rules permit.
func TestChannelsAndDomains(t *testing.T) {
	u := mustApply(t, "&news:* &log domain:web domain:api-*")
	for name, want := range map[string]bool{"news:1": true, "log": true, "logs": false, "": false} {
		if got := u.MayUseChannel([]byte(name)); got != want {
			t.Errorf("channel %q: %t, want %t", name, got, want)
		}
	}
	for pattern, want := range map[string]bool{"news:*": true, "news:1": false, "*": false, "log": true} {
		if got := u.MayUsePattern([]byte(pattern)); got != want {
			t.Errorf("channel pattern %q: %t, want %t", pattern, got, want)
		}
	}
	for name, want := range map[string]bool{"web": true, "api-1": true, "web2": false, "": false} {
		if got := u.MayUseDomain([]byte(name)); got != want {
			t.Errorf("domain %q: %t, want %t", name, got, want)
		}
	}
	if got := u.Channels() + " " + u.Domains(); got != "&news:* &log domain:web domain:api-*" {
		t.Errorf("the patterns are %q", got)
	}
	all := mustApply(t, "&a allchannels domain:a DOMAIN:*")
	if all.Channels() != "&*" || all.Domains() != "alldomains" || !all.MayUsePattern([]byte("*")) {
		t.Errorf("all channels and domains are %q, %q", all.Channels(), all.Domains())
	}
	none := mustApply(t, "allchannels resetchannels alldomains resetdomains")
	if none.MayUseChannel([]byte("a")) || none.MayUseDomain([]byte("a")) {
		t.Error("a channel or a domain is permitted after the reset")
	}
}

// TestUnrestricted checks that only a user with all permissions is unrestricted.
func TestUnrestricted(t *testing.T) {
	const all = "+@all allkeys allchannels alldomains"
	if !mustApply(t, all).Unrestricted() || !NewSet(testCatalog).Default().Unrestricted() {
		t.Error("a user with all permissions is restricted")
	}
	for _, less := range []string{"-ttl", "-client|id", "resetkeys", "resetchannels", "resetdomains", "nocommands", "reset", "-@admin"} {
		if mustApply(t, all+" "+less).Unrestricted() {
			t.Errorf("the user is unrestricted after %q", less)
		}
	}
}

// TestRuleErrors checks the reasons of wrong words.
func TestRuleErrors(t *testing.T) {
	for word, reason := range map[string]error{
		"+cl.throtle":                       ErrUnknownCommand,
		"+@nonsense":                        ErrUnknownCommand,
		"+client|nonsense":                  ErrUnknownCommand,
		"+cl.throttle|app":                  ErrFirstArgument,
		"-client|kill|app":                  ErrFirstArgument,
		"+nonsense|app":                     ErrUnknownCommand,
		"+|app":                             ErrUnknownCommand,
		"+":                                 ErrUnknownCommand,
		"nonsense":                          ErrSyntax,
		"":                                  ErrSyntax,
		"%~a":                               ErrSyntax,
		"%X~a":                              ErrSyntax,
		"%RR~a":                             ErrSyntax,
		"%WRw~a":                            ErrSyntax,
		"%R":                                ErrSyntax,
		"~a b":                              ErrSyntax,
		"&a b":                              ErrSyntax,
		"~a\n":                              ErrSyntax,
		"domain:":                           ErrSyntax,
		"domain:a b":                        ErrSyntax,
		"(~a":                               ErrSelector,
		"<none":                             ErrNoSuchPassword,
		"!" + hashOfSecret:                  ErrNoSuchPassword,
		"#abc":                              ErrDigest,
		"!abc":                              ErrDigest,
		"#" + strings.ToUpper(hashOfSecret): ErrDigest,
		"#" + strings.Repeat("g", 64):       ErrDigest,
	} {
		_, err := NewUser("bob", testCatalog).Apply(testCatalog, "on", word)
		wrong(t, err, reason)
	}
	full := mustApply(t, "allkeys allchannels alldomains")
	for word, reason := range map[string]error{"~a": ErrAllKeys, "&a": ErrAllChannels, "domain:a": ErrAllDomains} {
		_, err := full.Apply(testCatalog, word)
		wrong(t, err, reason)
	}
}

// TestManyPatterns checks the maximum numbers of patterns. A pattern that the user has already is not counted again.
func TestManyPatterns(t *testing.T) {
	for prefix, all := range map[string]string{"~": "allkeys", "&": "allchannels", "domain:": "alldomains"} {
		rules := []string{"resetchannels"}
		for i := range MaxPatterns {
			rules = append(rules, fmt.Sprint(prefix, i))
		}
		full, err := NewUser("bob", testCatalog).Apply(testCatalog, rules...)
		if err != nil {
			t.Fatalf("%d patterns with %q: %v", MaxPatterns, prefix, err)
		}
		if _, err := full.Apply(testCatalog, prefix+"0", prefix+"999"); err != nil {
			t.Errorf("patterns that the user has: %v", err)
		}
		_, err = full.Apply(testCatalog, prefix+"more")
		wrong(t, err, ErrManyPatterns)
		if _, err := full.Apply(testCatalog, all); err != nil {
			t.Errorf("%s: %v", all, err)
		}
	}
}

// TestRuleErrorTexts checks that errors name the word, propose a correction, and contain no password.
func TestRuleErrorTexts(t *testing.T) {
	for word, want := range map[string]string{
		"+cl.throtle":    `rule 2, "+cl.throtle": Unknown command or category name in ACL (did you mean "+cl.throttle"?)`,
		"-@limit":        `rule 2, "-@limit": Unknown command or category name in ACL (did you mean "-@limits"?)`,
		"nopas":          `rule 2, "nopas": Syntax error (did you mean "nopass"?)`,
		"hunter2secret":  `rule 2, "(hidden)": Syntax error`,
		"<hunter2secret": `rule 2, "<(hidden)": The password you are trying to remove from the user does not exist`,
		"#hunter2secret": `rule 2, "#(hidden)": The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters`,
	} {
		_, err := NewUser("bob", testCatalog).Apply(testCatalog, "on", word)
		if err == nil || err.Error() != want {
			t.Errorf("%q: the error is %v, want %s", word, err, want)
		}
	}
}

// TestApplyCopies checks that Apply does not change the user, whether or not it fails.
func TestApplyCopies(t *testing.T) {
	u := mustApply(t, "on >secret ~a &b +ttl domain:c")
	before := u.Text()
	for _, rules := range []string{
		"off resetpass >other", "!" + hashOfSecret, "~d %R~a", "&e domain:f", "+@limits -ttl", "+@all -ttl", "reset", "~g nonsense",
	} {
		_, _ = u.Apply(testCatalog, strings.Fields(rules)...)
		if got := u.Text(); got != before {
			t.Errorf("after %q the user is %q, want %q", rules, got, before)
		}
	}
}

// TestText checks the line of a user.
func TestText(t *testing.T) {
	for rules, want := range map[string]string{
		"":                        "user bob off resetchannels -@all",
		"on >secret ~a %R~b +ttl": "user bob on #" + hashOfSecret + " ~a %R~b resetchannels -@all +ttl",
		"on nopass allkeys allchannels alldomains +@all": "user bob on nopass ~* &* +@all alldomains",
		"&a &b domain:c":                  "user bob off resetchannels &a &b -@all domain:c",
		"nopass sanitize-payload >secret": "user bob off #" + hashOfSecret + " resetchannels -@all",
		">secret nopass":                  "user bob off nopass resetchannels -@all",
		">secret resetpass":               "user bob off resetchannels -@all",
		">secret >secret":                 "user bob off #" + hashOfSecret + " resetchannels -@all",
		">secret <secret":                 "user bob off resetchannels -@all",
		"#" + hashOfSecret:                "user bob off #" + hashOfSecret + " resetchannels -@all",
	} {
		u := mustApply(t, rules)
		if got := u.Text(); got != want {
			t.Errorf("%q: the text is %q, want %q", rules, got, want)
		}
		if got := mustParse(t, u.Text()).Get("bob"); !got.Same(u) {
			t.Errorf("%q: the parsed text is %q, want %q", rules, got.Text(), want)
		}
	}
}

// TestFlags checks the flags of ACL GETUSER.
func TestFlags(t *testing.T) {
	for rules, want := range map[string]string{"": "off", "on nopass": "on nopass", "on >a >b": "on"} {
		if got := strings.Join(mustApply(t, rules).Flags(), " "); got != want {
			t.Errorf("%q: the flags are %q, want %q", rules, got, want)
		}
	}
	if got := mustApply(t, ">secret").Passwords(); !slices.Equal(got, []string{hashOfSecret}) {
		t.Errorf("the passwords are %q", got)
	}
}

// TestCheckName checks which names are valid.
func TestCheckName(t *testing.T) {
	for name, valid := range map[string]bool{
		"bob": true, "böb": true, "a:b|c": true, "": false, "a b": false, "a\nb": false, "a\x00": false, "a\x7f": false,
		strings.Repeat("a", 256): true, strings.Repeat("a", 257): false,
	} {
		if err := CheckName(name); (err == nil) != valid {
			t.Errorf("%q: the error is %v, want valid: %t", name, err, valid)
		}
		if long := name == "" || len(name) > 256; long != errors.Is(CheckName(name), ErrNameLength) {
			t.Errorf("%q: the error is %v", name, CheckName(name))
		}
	}
}

// TestChecksDoNotAllocate checks that a permission check of a restricted user allocates no memory.
func TestChecksDoNotAllocate(t *testing.T) {
	u := mustApply(t, "+cl.throttle ~app:* %R~b:* &c domain:d*")
	key, channel, domain := []byte("app:1"), []byte("c"), []byte("default")
	if n := testing.AllocsPerRun(100, func() {
		if !u.MayRun(0) || !u.MayAccess(key, Read|Write) || !u.MayUseChannel(channel) || !u.MayUseDomain(domain) {
			t.Fatal("not permitted")
		}
	}); n != 0 {
		t.Errorf("the checks allocate %v times", n)
	}
}
