// Package outside names what is tested: go mod tidy would drop it else.
package outside

import _ "github.com/twmb/franz-go/pkg/kgo"
