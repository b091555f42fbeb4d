package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// maxName is what model services take, in bytes.
const maxName = 64

func (c Config) validate() error {
	if c.MaxTools < 0 {
		return errors.New("the limit of tools must not be negative; leave it out for the default")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if err := c.validateTool(name, c.Tools[name]); err != nil {
			return fmt.Errorf("tool %s: %w", name, err)
		}
	}
	for _, server := range slices.Sorted(maps.Keys(c.Imports)) {
		im := c.Imports[server]
		err := checkBehaviour(im.Effect, im.Approval)
		switch {
		case err == nil && c.Servers[server] == nil:
			err = c.unknownServer(server)
		case err == nil && im.TrustHints && im.Effect != "":
			err = errHints
		}
		if err != nil {
			return fmt.Errorf("tools of MCP server %s: %w", server, err)
		}
	}
	return nil
}

var errHints = errors.New("both an effect and hints to trust; keep one")

func (c Config) validateTool(name string, tool Tool) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := checkBehaviour(tool.Effect, tool.Approval); err != nil {
		return err
	}
	switch p := jsontext.Value(tool.Parameters); {
	case tool.NATS == (tool.MCP != ""):
		return errors.New("nothing says what runs it, or two things do; say nats, or the name of an MCP server")
	case tool.NATS && c.NATS == nil:
		return errors.New("it runs over NATS, and there is no executor for that")
	case tool.MCP != "" && c.Servers[tool.MCP] == nil:
		return c.unknownServer(tool.MCP)
	case tool.NATS && tool.TrustHints:
		return errors.New("there are no hints over NATS; say its effect")
	case tool.TrustHints && tool.Effect != "":
		return errHints
	case tool.Parameters != nil && (!p.IsValid() || p.Kind() != '{'):
		return errors.New("its parameters are not a JSON Schema object")
	}
	return nil
}

func (c Config) unknownServer(name string) error {
	return fmt.Errorf("no MCP server is called %s; %s", name, listed(slices.Sorted(maps.Keys(c.Servers))))
}

func checkBehaviour(effect, approval string) error {
	effects := []string{"", event.EffectRead, event.EffectIdempotent, event.EffectWrite}
	approvals := []string{"", event.ApprovalNone, event.ApprovalRequired}
	switch {
	case !slices.Contains(effects, effect):
		return fmt.Errorf("effect %q is not one of read, idempotent, write", effect)
	case !slices.Contains(approvals, approval):
		return fmt.Errorf("approval %q is not one of none, required", approval)
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || modelName(name) != name {
		return fmt.Errorf("name %q is not 1 to %d letters, digits, _ or -, which is what model services take", name, maxName)
	}
	return nil
}

// modelName puts _ for each byte that model services do not take in a name.
func modelName(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			b[i] = '_'
		}
	}
	return string(b)
}
