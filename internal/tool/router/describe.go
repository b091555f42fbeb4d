package router

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/tool/mcp"
	"github.com/loopd/loopd/loop"
)

// Describe is what loop.Config.Tools needs: it asks the servers for what the
// configuration leaves out, and from then on imported tools are routed. It is
// called before sessions run; the error of a server that cannot be asked names
// it.
//
// What servers say becomes part of each request. A description that changes
// between two runs makes another request of it: pin Description and Parameters
// where that matters.
func (t *Tools) Describe(ctx context.Context) (map[string]loop.Tool, error) {
	a := &answers{servers: t.cfg.Servers, specs: map[string]map[string]mcp.Spec{}}
	tools, routes := map[string]loop.Tool{}, map[string]route{}
	for _, name := range slices.Sorted(maps.Keys(t.cfg.Tools)) {
		tool, err := t.describe(ctx, a, name)
		if err != nil {
			return nil, fmt.Errorf("router: tool %s: %w", name, err)
		}
		tools[name], routes[name] = tool, t.cfg.route(name, t.cfg.Tools[name])
	}
	for _, server := range slices.Sorted(maps.Keys(t.cfg.Imports)) {
		if err := t.imports(ctx, a, server, tools, routes); err != nil {
			return nil, fmt.Errorf("router: tools of MCP server %s: %w", server, err)
		}
	}
	if len(tools) > t.cfg.MaxTools {
		return nil, fmt.Errorf("router: %d tools, at most %d are allowed; import fewer of them by name, or raise the limit", len(tools), t.cfg.MaxTools)
	}
	t.routes.Store(&routes)
	return tools, nil
}

// describe is one declared tool.
func (t *Tools) describe(ctx context.Context, a *answers, name string) (loop.Tool, error) {
	tool := t.cfg.Tools[name]
	if tool.MCP == "" || tool.Description != "" && tool.Parameters != nil && !tool.TrustHints {
		return fill(tool.Tool, mcp.Spec{}, false), nil
	}
	specs, err := a.of(ctx, tool.MCP)
	if err != nil {
		return loop.Tool{}, err
	}
	remote := t.cfg.route(name, tool).remote
	spec, ok := specs[remote]
	if !ok {
		return loop.Tool{}, fmt.Errorf("MCP server %s does not offer %s; %s", tool.MCP, remote, listed(slices.Sorted(maps.Keys(specs))))
	}
	return fill(tool.Tool, spec, tool.TrustHints), nil
}

// imports adds what a server lists.
func (t *Tools) imports(ctx context.Context, a *answers, server string, tools map[string]loop.Tool, routes map[string]route) error {
	im := t.cfg.Imports[server]
	specs, err := a.of(ctx, server)
	if err != nil {
		return err
	}
	offered := slices.Sorted(maps.Keys(specs))
	wanted := im.Only
	if len(wanted) == 0 {
		wanted = offered
	}
	for _, remote := range wanted {
		spec, ok := specs[remote]
		if !ok {
			return fmt.Errorf("it does not offer %s; %s", remote, listed(offered))
		}
		if t.declared(server, remote) {
			continue
		}
		name := modelName(im.Prefix + remote)
		if err := checkName(name); err != nil {
			return fmt.Errorf("%s: %w; declare it under tools with a name of your own", remote, err)
		}
		if _, taken := routes[name]; taken {
			return fmt.Errorf("%s: there is a tool %s already; give the import a prefix, or declare the tool under another name", remote, name)
		}
		own := loop.Tool{Effect: im.Effect, Approval: im.Approval, Background: im.Background}
		tools[name], routes[name] = fill(own, spec, im.TrustHints), route{t.cfg.Servers[server], remote}
	}
	return nil
}

// declared reports whether a tool of the configuration is that one.
func (t *Tools) declared(server, remote string) bool {
	for name, tool := range t.cfg.Tools {
		if tool.MCP == server && t.cfg.route(name, tool).remote == remote {
			return true
		}
	}
	return false
}

// fill puts the server's word where the operator said nothing.
func fill(own loop.Tool, spec mcp.Spec, trustHints bool) loop.Tool {
	if own.Effect == "" && trustHints {
		own.Effect = spec.HintedEffect
	}
	if own.Effect == "" {
		own.Effect = event.EffectWrite
	}
	if own.Approval == "" {
		own.Approval = event.ApprovalNone
	}
	if own.Description == "" {
		own.Description = spec.Description
	}
	if own.Parameters == nil {
		own.Parameters = spec.Parameters
	}
	return own
}

// answers asks each server once.
type answers struct {
	servers map[string]Server
	specs   map[string]map[string]mcp.Spec
}

func (a *answers) of(ctx context.Context, server string) (map[string]mcp.Spec, error) {
	if specs, ok := a.specs[server]; ok {
		return specs, nil
	}
	specs, err := a.servers[server].Specs(ctx)
	if err == nil {
		a.specs[server] = specs
	}
	return specs, err
}
