package redact

import "strings"

// excerptKeys are the names whose values an excerpt hides: these, and every
// name that ends in an underscore and one of these. Letter case is ignored.
var excerptKeys = map[string]bool{
	"password": true, "token": true, "api_key": true, "apikey": true, "secret": true, "auth": true,
	"authorization": true, "access_key": true, "access_token": true, "refresh_token": true, "private_key": true,
}

// excerptKey reports whether an excerpt hides the value of a key.
func excerptKey(key string) bool {
	key = strings.ToLower(key)
	if excerptKeys[key] {
		return true
	}
	for i := range len(key) {
		if key[i] == '_' && excerptKeys[key[i+1:]] {
			return true
		}
	}
	return false
}

// telemetryParts make every name a secret one that contains them, letter case
// and separators aside: apiKey, api_key, x-api-key.
var telemetryParts = []string{
	"apikey", "password", "passwd", "passphrase", "secret", "credential", "authorization", "bearer",
	"authtoken", "accesstoken", "refreshtoken", "accesskey", "privatekey", "clientsecret",
}

// telemetryKey reports whether telemetry hides the value of a key. It hides
// all that an excerpt hides.
func telemetryKey(key string) bool {
	flat := flatten(key)
	if strings.HasSuffix(flat, "token") || flat == "cookie" || flat == "setcookie" {
		return true
	}
	for _, part := range telemetryParts {
		if strings.Contains(flat, part) {
			return true
		}
	}
	return excerptKey(key)
}

// paramKeys are names that promise a secret only as parameters of a URL.
var paramKeys = map[string]bool{
	"key": true, "sig": true, "signature": true, "code": true, "ticket": true, "pwd": true, "pass": true,
	"xamzsignature": true, "xgoogsignature": true,
}

// headerKeys are HTTP headers whose whole line is secret.
var headerKeys = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "x-api-key": true,
	"api-key": true, "x-goog-api-key": true, "x-auth-token": true, "x-amz-security-token": true,
}

// flatten is a key in lower case without separators.
func flatten(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '-' || r == '.' || r == ' ':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, key)
}
