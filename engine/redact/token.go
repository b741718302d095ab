package redact

import (
	"encoding/base64"
	"strings"
)

// shape is a kind of token that tells itself by how it starts.
type shape struct {
	prefix string
	// min is how many signs must follow.
	min int
	// class are the signs besides letters and digits.
	class string
	// keep leaves the prefix readable.
	keep bool
}

// shapes are the tokens of the services that a harness is likely to hold keys
// for, and its own.
var shapes = []shape{
	{prefix: "hrn_", min: 8, class: "_-."},
	{prefix: "harness.ticket.", min: 8, class: "_-.", keep: true},
	{prefix: "sk-", min: 8, class: "_-"},  // OpenAI, Anthropic, OpenRouter, DeepSeek, Moonshot
	{prefix: "csk-", min: 8, class: "_-"}, // Cerebras
	{prefix: "gsk_", min: 8, class: "_-"}, // Groq
	{prefix: "xai-", min: 16, class: "_-"},
	{prefix: "hf_", min: 16},
	{prefix: "fw_", min: 16},
	{prefix: "r8_", min: 16},
	{prefix: "pplx-", min: 16},
	{prefix: "AIza", min: 30, class: "_-"},
	{prefix: "ya29.", min: 16, class: "_-."},
	{prefix: "AKIA", min: 16},
	{prefix: "ASIA", min: 16},
	{prefix: "ABSK", min: 40, class: "+/="}, // Bedrock API keys
	{prefix: "xoxa-", min: 8, class: "-"},
	{prefix: "xoxb-", min: 8, class: "-"},
	{prefix: "xoxc-", min: 8, class: "-"},
	{prefix: "xoxd-", min: 8, class: "-%/+="},
	{prefix: "xoxe-", min: 8, class: "-"},
	{prefix: "xoxe.", min: 8, class: "-."},
	{prefix: "xoxp-", min: 8, class: "-"},
	{prefix: "xoxr-", min: 8, class: "-"},
	{prefix: "xoxs-", min: 8, class: "-"},
	{prefix: "xapp-", min: 8, class: "-"},
	{prefix: "hooks.slack.com/services/", min: 8, class: "/_-", keep: true},
	{prefix: "hooks.slack.com/workflows/", min: 8, class: "/_-", keep: true},
	{prefix: "ghp_", min: 16},
	{prefix: "gho_", min: 16},
	{prefix: "ghu_", min: 16},
	{prefix: "ghs_", min: 16, class: "_-."},
	{prefix: "ghr_", min: 16},
	{prefix: "github_pat_", min: 16, class: "_"},
	{prefix: "glpat-", min: 16, class: "_-."},
	{prefix: "npm_", min: 16},
	{prefix: "sk_live_", min: 8},
	{prefix: "sk_test_", min: 8},
	{prefix: "rk_live_", min: 8},
	{prefix: "rk_test_", min: 8},
	{prefix: "whsec_", min: 8, class: "+/="},
}

// byFirst are the shapes by the first byte of their prefix.
var byFirst = func() (m [256][]shape) {
	for _, s := range shapes {
		m[s.prefix[0]] = append(m[s.prefix[0]], s)
	}
	return m
}()

// tokens appends where tokens of known shapes stand: those of shapes, JSON Web
// Tokens and what follows the words Bearer and Basic.
func tokens(s string, spans []span) []span {
	noJWT := 0 // no JSON Web Token starts before
	for i := 0; i < len(s); i++ {
		// A prefix inside a word starts no token: task-2024-report.
		if i > 0 && alnum(s[i-1]) {
			continue
		}
		found := false
		var sp span
		switch s[i] {
		case 'b', 'B':
			sp, found = authScheme(s, i)
		case 'e':
			if i >= noJWT {
				sp, found = jwt(s, i)
				noJWT = sp.to
			}
		}
		for _, sh := range byFirst[s[i]] {
			if found {
				break
			}
			sp, found = sh.find(s, i)
		}
		if found {
			spans = append(spans, sp)
			i = sp.to - 1
		}
	}
	return spans
}

func (sh shape) find(s string, i int) (span, bool) {
	if !strings.HasPrefix(s[i:], sh.prefix) {
		return span{}, false
	}
	from := i + len(sh.prefix)
	to := run(s, from, sh.class)
	if to-from < sh.min {
		return span{}, false
	}
	if !sh.keep {
		from = i
	}
	return span{from, to}, true
}

// jwt finds three dotted base64url parts of which the first two are JSON
// objects. If it finds none, the end of the span says where the first part
// ended: no token can start inside it.
func jwt(s string, i int) (span, bool) {
	const object, class = "eyJ", "_-"
	if !strings.HasPrefix(s[i:], object) {
		return span{}, false
	}
	first := run(s, i, class)
	if !strings.HasPrefix(s[first:], "."+object) {
		return span{i, first}, false
	}
	second := run(s, first+1, class)
	if !strings.HasPrefix(s[second:], ".") {
		return span{i, first}, false
	}
	return span{i, run(s, second+1, class)}, true
}

// authScheme finds the credentials of a Bearer or Basic authorization.
func authScheme(s string, i int) (span, bool) {
	const bearer, basic = "bearer", "basic"
	word := ""
	for _, w := range []string{bearer, basic} {
		if len(s) > i+len(w) && strings.EqualFold(s[i:i+len(w)], w) {
			word = w
		}
	}
	from := i + len(word)
	if word == "" || s[from] != ' ' && s[from] != '\t' {
		return span{}, false
	}
	from = skip(s, from, " \t")
	to := run(s, from, "_-.~+/=:")
	if to-from < minSecret {
		return span{}, false
	}
	if word == basic {
		// "Basic" is an ordinary word; its credentials are base64 of user:password.
		plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s[from:to], "="))
		if err != nil || !strings.Contains(string(plain), ":") {
			return span{}, false
		}
	}
	return span{from, to}, true
}

// run is where the run of letters, digits and signs of class ends that starts
// at from. A full stop at its end belongs to the sentence.
func run(s string, from int, class string) int {
	to := from
	for to < len(s) && (alnum(s[to]) || strings.IndexByte(class, s[to]) >= 0) {
		to++
	}
	for to > from && s[to-1] == '.' {
		to--
	}
	return to
}

// skip is the first place from from on whose sign is none of class.
func skip(s string, from int, class string) int {
	for from < len(s) && strings.IndexByte(class, s[from]) >= 0 {
		from++
	}
	return from
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
