package remote

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

// auth says how a request proves who makes it.
type auth struct {
	Type      string `json:"type"`
	SecretKey string `json:"secret_key"`
	TokenKey  string `json:"token_key"`
	ValueKey  string `json:"value_key"`
	Header    string `json:"header"`
}

// key is the environment variable that an auth names, and the member that names it.
func (a *auth) key() (field, name string) {
	switch a.Type {
	case "hmac":
		return "invocation.auth.secret_key", a.SecretKey
	case "bearer":
		return "invocation.auth.token_key", a.TokenKey
	}
	return "invocation.auth.value_key", a.ValueKey
}

func (c *Caller) checkAuth(a *auth) error {
	if a == nil {
		return nil
	}
	switch a.Type {
	case "hmac", "bearer":
	case "api_key":
		if err := checkHeader("invocation.auth.header", a.Header, ""); err != nil {
			return err
		}
	default:
		return bus.Invalid("invocation.auth.type", "hmac, bearer or api_key")
	}
	if field, name := a.key(); !isVariable(name) {
		return bus.Invalid(field, "the name of an environment variable of the bus")
	}
	return nil
}

// secret is the value of the variable that an auth names; empty without auth. A variable that may not be named looks
// like one that is not set: what the bus has in its environment is nobody's business.
func (c *Caller) secret(a *auth) (string, error) {
	if a == nil {
		return "", nil
	}
	_, name := a.key()
	value := ""
	if c.nameable(name) {
		value = strings.TrimSpace(c.cfg.Getenv(name))
	}
	if value == "" || !isHeaderValue(value) {
		return "", &bus.Error{
			Code:    protocol.CodeSecretNotFound,
			Message: "The environment of the bus has no variable " + name + " that functions of web servers may use.",
		}
	}
	redact.Secrets.Add(value)
	return value, nil
}

func (c *Caller) nameable(name string) bool {
	for _, key := range c.cfg.Keys {
		if start, open := strings.CutSuffix(key, "*"); name == key || open && strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// CheckKey refuses what is no entry of an allow list of variables: a whole name, or the beginning of one and a star. A
// star alone is none, because it would hand out the whole environment.
func CheckKey(key string) error {
	if !isVariable(strings.TrimSuffix(key, "*")) {
		return bus.Invalid("secret_keys", "names of environment variables, or their beginnings with a star, such as HOOK_*")
	}
	return nil
}

func isVariable(name string) bool {
	const first = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && len(name) <= 128 && strings.Contains(first, name[:1]) && strings.Trim(name, first+"0123456789") == ""
}

// sign adds the proof to a request.
func (a *auth) sign(h http.Header, secret, timestamp string, body []byte) {
	switch {
	case a == nil:
	case a.Type == "hmac":
		h.Set("X-Iii-Signature", "sha256="+signature(secret, timestamp, body))
	case a.Type == "bearer":
		h.Set("Authorization", "Bearer "+secret)
	default:
		h.Set(a.Header, secret)
	}
}

func signature(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + ":" + base64.StdEncoding.EncodeToString(body)))
	return hex.EncodeToString(mac.Sum(nil))
}
