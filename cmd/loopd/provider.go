package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/runner"
)

// providers are the wire protocols that serve speaks.
var providers = map[string]func(config) (runner.Provider, error){
	"chat": newChat,
}

// connect makes the provider; it asks nothing yet.
func (c config) connect() (runner.Provider, error) {
	open, ok := providers[c.Provider.Kind]
	if !ok {
		known := slices.Sorted(maps.Keys(providers))
		return nil, fmt.Errorf("provider %q is not known; use %s", c.Provider.Kind, strings.Join(known, ", "))
	}
	return open(c)
}

func newChat(c config) (runner.Provider, error) {
	p := c.Provider
	if p.Model == "" {
		return nil, fmt.Errorf("no model: name one with --model, or as provider.model in the configuration file")
	}
	if p.Profile == "" {
		p.Profile = "generic"
		if p.BaseURL == "" {
			p.Profile = "openai"
		}
	}
	if p.BaseURL == "" {
		if p.Profile != "openai" {
			return nil, fmt.Errorf("no base URL for profile %s: give --base-url, or provider.base_url in the configuration file", p.Profile)
		}
		p.BaseURL = openAI
	}
	key := os.Getenv(p.APIKeyEnv)
	if key == "" && (p.BaseURL == openAI || p.APIKeyEnv != defaultKeyEnv && p.APIKeyEnv != "") {
		return nil, fmt.Errorf("no API key: the environment variable %s is empty; set it, or name another one with --api-key-env", p.APIKeyEnv)
	}
	extra := map[string]event.RawJSON{}
	for name, value := range p.Extra {
		b, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("provider.extra.%s: %w", name, err)
		}
		extra[name] = b
	}
	quiet := time.Duration(c.Timeouts.Operation)
	return chat.New(chat.Config{
		BaseURL: p.BaseURL, Model: p.Model, Profile: p.Profile, APIKey: httpwire.Secret(key), Store: p.Store,
		Headers: p.Headers, Extra: extra, HTTP: httpwire.Config{HeaderTimeout: quiet, IdleTimeout: quiet},
	})
}
