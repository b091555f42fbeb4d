package replay

import "unicode/utf8"

// leastOverlap is how many code points an overlap must have to be dropped,
// unless it is the whole next segment (contract 6.2).
const leastOverlap = 16

// Merge joins the next segment of a chain to its text so far (contract 6.2):
// the longest end of the text that is a start of the next segment is dropped
// from the latter, if it has at least 16 code points or is the whole of it.
func Merge(text, next string) string {
	n := overlap(text, next)
	if n < len(next) && utf8.RuneCountInString(next[:n]) < leastOverlap {
		n = 0
	}
	return text + next[n:]
}

// overlap is the length in bytes of the longest end of text that is a start of
// next. Both are valid UTF-8, so it never cuts a code point: equal bytes from
// the first byte of one code point to the last of another.
func overlap(text, next string) int {
	if len(text) > len(next) {
		text = text[len(text)-len(next):]
	}
	fail := failures(next)
	n := 0
	for i := range len(text) {
		for n > 0 && (n == len(next) || next[n] != text[i]) {
			n = fail[n-1]
		}
		if n < len(next) && next[n] == text[i] {
			n++
		}
	}
	return n
}

// failures is the failure function of Knuth, Morris and Pratt: for each start
// of s, the length of its longest proper end that is a start of s too.
func failures(s string) []int {
	fail := make([]int, len(s))
	n := 0
	for i := 1; i < len(s); i++ {
		for n > 0 && s[n] != s[i] {
			n = fail[n-1]
		}
		if s[n] == s[i] {
			n++
		}
		fail[i] = n
	}
	return fail
}
