package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxExponent bounds the exponents that reach the validator. It turns numbers
// into fractions of whole numbers: 1e999999 would cost a million digits, and
// beyond that it has no fraction at all and panics on a minimum. No number of
// the contract comes near.
const maxExponent = 1000

// tamed replaces, within v, each number with an exponent beyond maxExponent by
// one with maxExponent. Both are far outside every range of the schemas, on
// the same side, and one is whole if the other is.
func tamed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			v[name] = tamed(field)
		}
	case []any:
		for i, item := range v {
			v[i] = tamed(item)
		}
	case json.Number:
		return tamedNumber(v)
	}
	return v
}

func tamedNumber(n json.Number) json.Number {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(string(n)), "e")
	if !ok {
		return n
	}
	e, err := strconv.Atoi(exponent)
	if err == nil && -maxExponent <= e && e <= maxExponent {
		return n
	}
	if strings.HasPrefix(exponent, "-") {
		return json.Number(fmt.Sprintf("%se-%d", mantissa, maxExponent))
	}
	return json.Number(fmt.Sprintf("%se%d", mantissa, maxExponent))
}

// newer reports whether an envelope version is a whole number above the one
// that these schemas describe.
func newer(version any) bool {
	n, ok := version.(json.Number)
	if !ok {
		return false
	}
	v, err := n.Int64()
	return err == nil && v > 1
}
