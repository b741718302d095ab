package main

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/config"
	"github.com/iii-aws/harness/internal/policy"
)

// openPolicy gives policy::check_permissions. A file that was named must be
// there and without mistakes.
func (s *stack) openPolicy(context.Context) (bus.Endpoint, error) {
	meta := func(id string) bus.Meta {
		e, _ := s.registry.Lookup(bus.DefaultNamespace, id)
		return e.Meta
	}
	if s.config.Policy == config.PolicyNone {
		s.logger.Warn("policy: none: every call runs that the kernel does not deny")
		return policy.Endpoint(policy.None, meta), nil
	}
	cfg := policy.SourceConfig{
		File: s.permissions, Scopes: s.config.AgentScopes, Clock: s.clock,
		Alarm:  func(err error) { s.logger.Error("permissions file rejected", "alarm", "policy_file", "error", err) },
		Warn:   func(text string) { s.logger.Warn("permissions file is odd", "warning", text) },
		Loaded: func(r *policy.Rules) { s.logger.Info("permissions read again", "rules", r.Len()) },
	}
	if s.permissionsDefault {
		rules, err := policy.Parse("built-in rules", []byte(policy.Builtin), s.config.AgentScopes)
		if err != nil {
			return bus.Endpoint{}, err
		}
		cfg.Fallback = rules
		if missing(s.permissions) {
			s.logger.Info("no iii-permissions.yaml here: built-in rules serve; they ask before anything but looking around")
		}
	}
	source, err := policy.Open(cfg)
	if err != nil {
		return bus.Endpoint{}, err
	}
	s.policy = source
	return policy.Endpoint(source.Rules, meta), nil
}
