package options

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// passwordFile is the name of the option with the path of a file that contains the password.
const passwordFile = "requirepass-file"

// maxPasswordFile is the maximum size of the file in bytes.
const maxPasswordFile = 64 << 10

var (
	errPasswordEmpty = errors.New("the file is empty: write the password to it")
	errPasswordLong  = fmt.Errorf("the file has more than %d bytes: write only the password to it", maxPasswordFile)
	errPasswordLines = errors.New("the file has several lines: write only the password to it")
)

// readPassword reads the file of requirepass-file, if the option is set. A relative path is relative to dir. A line end at
// the end of the file does not belong to the password. The error does not contain the password.
func (o *Options) readPassword(dir string) (err error) {
	if o.filePassword = ""; o.RequirePassFile == "" {
		return nil
	}
	o.filePassword, err = passwordIn(under(dir, o.RequirePassFile))
	if err != nil {
		return fmt.Errorf("option %s: read %s: %w", passwordFile, quote(o.RequirePassFile), err)
	}
	return nil
}

func passwordIn(path string) (string, error) {
	f, err := fsutil.Open(path)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxPasswordFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	switch {
	case len(content) > maxPasswordFile:
		return "", errPasswordLong
	case password == "":
		return "", errPasswordEmpty
	case strings.ContainsAny(password, "\r\n"):
		return "", errPasswordLines
	}
	return password, nil
}
