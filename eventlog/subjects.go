package eventlog

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/loopd/loopd/event"
)

// subjects makes every subject of a log, and takes them apart. Nothing else in
// the program spells one.
type subjects struct{ prefix string }

// MaxIDBytes is the longest id that fits into a subject: 128 characters of any
// script.
const MaxIDBytes = 512

// The last token of a family of subjects.
const (
	familyInbox  = "in"
	familyEvents = "ev"
	familyFrames = "op"
)

// Token is the subject token of an id: the id itself where it matches
// [A-Za-z0-9_-]{1,128}, else "~" and its base64url without padding. An id is
// UTF-8: no event could carry another. The error is a *[TokenError].
func Token(id string) (string, error) {
	if id == "" || len(id) > MaxIDBytes || !utf8.ValidString(id) {
		return "", &TokenError{ID: id}
	}
	if plainToken(id) {
		return id, nil
	}
	return "~" + base64.RawURLEncoding.EncodeToString([]byte(id)), nil
}

// ID is the id that a token stands for. Each id has one token: any other
// spelling of it is refused, so that no second subject can claim its identity.
func ID(token string) (string, bool) {
	if plainToken(token) {
		return token, true
	}
	code, encoded := strings.CutPrefix(token, "~")
	if !encoded {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil {
		return "", false
	}
	id := string(raw)
	again, err := Token(id)
	return id, err == nil && again == token
}

func plainToken(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// stream is the name of the stream that holds a family.
func (s subjects) stream(family string) string {
	names := map[string]string{familyInbox: "_INBOX", familyEvents: "_EVENTS", familyFrames: "_FRAMES"}
	return strings.ToUpper(strings.ReplaceAll(s.prefix, ".", "_")) + names[family]
}

// all is what the stream of a family captures.
func (s subjects) all(family string) string {
	if family == familyEvents {
		return s.prefix + "." + family + ".*.*.*"
	}
	return s.prefix + "." + family + ".*.*"
}

// ofSession is everything of one session in a family. For events it is the
// fence's filter, byte for byte the same for every publisher.
func (s subjects) ofSession(family, session string) (string, error) {
	token, err := Token(session)
	if err != nil {
		return "", err
	}
	return s.prefix + "." + family + "." + token + ".>", nil
}

// event is where an event of a type is appended.
func (s subjects) event(session string, t event.Type) (string, error) {
	token, err := Token(session)
	if err != nil {
		return "", err
	}
	family, transition, ok := strings.Cut(string(t), ".")
	if !ok || !plainToken(family) || !plainToken(transition) {
		return "", &TokenError{ID: string(t), Type: true}
	}
	return s.prefix + "." + familyEvents + "." + token + "." + family + "." + transition, nil
}

// opened is the first event of every session.
func (s subjects) opened() string {
	return s.prefix + "." + familyEvents + ".*." + string(event.TypeSessionOpened)
}

// item is an input of a session in the inbox, or an operation of it in the
// frames.
func (s subjects) item(family, session, id string) (string, error) {
	token, err := Token(session)
	if err != nil {
		return "", err
	}
	last, err := Token(id)
	if err != nil {
		return "", err
	}
	return s.prefix + "." + family + "." + token + "." + last, nil
}

// session is the session id in a subject of a family.
func (s subjects) session(family, subject string) (id string, rest string, ok bool) {
	tail, ok := strings.CutPrefix(subject, s.prefix+"."+family+".")
	if !ok {
		return "", "", false
	}
	token, rest, ok := strings.Cut(tail, ".")
	if !ok {
		return "", "", false
	}
	id, ok = ID(token)
	return id, rest, ok
}

// input is the input id in a subject of the inbox. A token that stands for no
// id is given as it is: its input is refused by whoever compares it with the
// id in the body, and stops nobody.
func (s subjects) input(subject string) string {
	token := subject[strings.LastIndexByte(subject, '.')+1:]
	if id, ok := ID(token); ok {
		return id
	}
	return token
}
