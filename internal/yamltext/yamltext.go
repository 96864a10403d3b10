// Package yamltext parses YAML that may come from a client.
package yamltext

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Documents returns the documents of a YAML text. The root of a document is the first node of its Content. A panic of the
// YAML library is returned as an error, because a text must not stop the server.
func Documents(text string) (list []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			list, err = nil, fmt.Errorf("yaml: the parser failed: %v", r)
		}
	}()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		}
		list = append(list, &document)
	}
}
