package tlsclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiles_Errors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent.pem")
	for want, f := range map[string]Files{
		"--ca: open " + absent:                                 {CA: absent, CAOption: "--ca"},
		"--ca: " + empty + " has no certificate in PEM format": {CA: empty, CAOption: "--ca"},
		"--cert and --key: open " + absent:                     {Cert: absent, Key: empty, PairOptions: "--cert and --key"},
	} {
		if _, err := f.Config("", "host"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", f, err, want)
		}
	}
}

func TestFiles_Names(t *testing.T) {
	for _, c := range []struct{ name, host, want string }{{"", "host", "host"}, {"name", "host", "name"}} {
		config, err := (&Files{}).Config(c.name, c.host)
		if err != nil || config.ServerName != c.want || config.RootCAs != nil || config.Certificates != nil {
			t.Errorf("the configuration for %+v has the name %q, error %v", c, config.ServerName, err)
		}
	}
}
