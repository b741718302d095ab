package kernel

import (
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/pattern"
)

// InternalRule is the rule id of the denial of a function that is marked
// internal.
const InternalRule = "internal"

// denies is what an agent may never call: the gate and its state, the bus's
// own levers, credentials, other runs, and the mutations of what the harness
// itself keeps.
var denies = []string{
	"approval::resolve", "policy::check_permissions", "hook-fanout::*",
	"state::set", "state::update", "state::delete",
	"stream::set", "stream::update", "stream::delete", "stream::send",
	"iii::durable::publish", "publish", "iii::queue::*", "queue::define", "engine::queue::enqueue",
	"engine::register_trigger", "engine::unregister_trigger", "engine::registrations::release",
	"auth::api_tokens::*", "engine::workers::register", "engine::channels::create",
	"configuration::set", "configuration::register",
	"auth::set_token", "auth::delete_token", "auth::get_token", "auth::connect_ticket",
	"run::start", "run::abort", "harness::trigger",
	"router::*", "provider::*", "turn::*", "ui::*", "session-inbox::*",
	"models::register", "models::reconcile", "context-compaction::*",
	"directory::skills::download", "blob::create_upload",
	"session-tree::create", "session-tree::ensure", "session-tree::append", "session-tree::append_batch",
	"session-tree::append_synthetic", "session-tree::fork", "session-tree::clone", "session-tree::compact",
	"session-tree::reconcile", "session-tree::update_part", "session-tree::update_parts",
	"budget::create", "budget::update", "budget::delete", "budget::record", "budget::reset", "budget::alert_set",
	"budget::enforce", "budget::exempt", "budget::pause", "budget::reserve", "budget::settle", "budget::release",
}

var denySet = pattern.MustCompileSet(denies...)

// Denies is the rules, in their order.
func Denies() []string { return append([]string(nil), denies...) }

// Deny is the rule that denies a function, if one does: the id, or the glob
// that covers it, or InternalRule.
func Deny(functionID string, meta bus.Meta) (rule string, denied bool) {
	if rule, ok := denySet.Match(functionID); ok {
		return rule, true
	}
	if meta.Internal {
		return InternalRule, true
	}
	return "", false
}
