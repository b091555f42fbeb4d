package loop

import "unicode/utf8"

// overlapMin is the shortest repetition, in code points, that MergeText drops
// when it is not the whole next segment (contract 6.2).
const overlapMin = 16

// MergeText is the display text of a chain after one more segment (contract
// 6.2): the longest end of text that is a start of segment is dropped from
// segment, if it has at least 16 code points or is the whole segment. Code
// points are compared as they are; nothing is normalised.
func MergeText(text, segment string) string {
	return text + segment[overlap(text, segment):]
}

// overlap is the number of bytes of segment's start that MergeText drops.
func overlap(text, segment string) int {
	border := borders(segment)
	// Walk text with the automaton of segment: matched is the longest start of
	// segment that ends here. Whole-segment matches go on from their border, so
	// that the match that counts is one that ends with text.
	matched := 0
	if len(text) > len(segment) {
		text = text[len(text)-len(segment):]
	}
	for i := 0; i < len(text); i++ {
		if matched == len(segment) {
			matched = border[matched]
		}
		for matched > 0 && segment[matched] != text[i] {
			matched = border[matched]
		}
		if matched < len(segment) && segment[matched] == text[i] {
			matched++
		}
	}
	// Matching bytes ends on a code point of text, so it must start on one too.
	for matched > 0 && !utf8.ValidString(segment[:matched]) && utf8.ValidString(segment) {
		matched = border[matched]
	}
	if matched == len(segment) || utf8.RuneCountInString(segment[:matched]) >= overlapMin {
		return matched
	}
	return 0
}

// borders is the prefix function of Knuth, Morris and Pratt: border[n] is the
// length of the longest proper start of s[:n] that is also its end.
func borders(s string) []int {
	border := make([]int, len(s)+1)
	for i, k := 1, 0; i < len(s); i++ {
		for k > 0 && s[k] != s[i] {
			k = border[k]
		}
		if s[k] == s[i] {
			k++
		}
		border[i+1] = k
	}
	return border
}
