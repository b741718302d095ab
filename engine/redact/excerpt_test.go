package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestA15Excerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 256)
	astral := strings.Repeat("\U0001f600", 256)
	tests := []struct{ name, in, want string }{
		{"plain values stay", `{"a":1,"b":"x","c":[true,null,1.50]}`, `{"a":1,"b":"x","c":[true,null,1.50]}`},
		{"order and digits stay", `{"z":12345678901234567890,"a":1e2}`, `{"z":12345678901234567890,"a":1e2}`},
		{"space goes", " { \"a\" : [ 1 , 2 ] , \"b\" : { } } ", `{"a":[1,2],"b":{}}`},
		{"secret key", `{"password":"p"}`, `{"password":"<redacted>"}`},
		{"any value of a secret key", `{"token":{"a":["]","}"]},"secret":[1],"auth":null,"b":1}`, `{"token":"<redacted>","secret":"<redacted>","auth":"<redacted>","b":1}`},
		{"nested secrets", `{"a":[{"b":{"api_key":"k"}}]}`, `{"a":[{"b":{"api_key":"<redacted>"}}]}`},
		{"every key", `{"password":1,"token":1,"api_key":1,"apikey":1,"secret":1,"auth":1,"authorization":1,"access_key":1,"access_token":1,"refresh_token":1,"private_key":1}`,
			`{"password":"<redacted>","token":"<redacted>","api_key":"<redacted>","apikey":"<redacted>","secret":"<redacted>","auth":"<redacted>","authorization":"<redacted>","access_key":"<redacted>","access_token":"<redacted>","refresh_token":"<redacted>","private_key":"<redacted>"}`},
		{"letter case", `{"ApiKey":1,"AUTHORIZATION":1}`, `{"ApiKey":"<redacted>","AUTHORIZATION":"<redacted>"}`},
		{"suffix keys", `{"db_password":1,"my_api_key":1,"X_Auth":1}`, `{"db_password":"<redacted>","my_api_key":"<redacted>","X_Auth":"<redacted>"}`},
		{"suffix needs its underscore", `{"author":1,"tokens":1,"mytoken":1,"x-token":1,"secrets":1}`, `{"author":1,"tokens":1,"mytoken":1,"x-token":1,"secrets":1}`},
		{"escaped key", `{"p\u0061ssword":"p"}`, `{"p\u0061ssword":"<redacted>"}`},
		{"256 stay", `"` + long + `"`, `"` + long + `"`},
		{"257 are clipped", `"` + long + `b"`, `"` + long + `…"`},
		{"256 astral stay", `"` + astral + `"`, `"` + astral + `"`},
		{"257 astral are clipped", `"` + astral + `x"`, `"` + astral + `…"`},
		{"escapes count as what they say", `"` + strings.Repeat(`\n`, 257) + `"`, `"` + strings.Repeat(`\n`, 256) + `…"`},
		{"keys are not clipped", `{"` + long + `b":1}`, `{"` + long + `b":1}`},
		{"depth 64 stays", strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
		{"below depth 64", strings.Repeat("[", 66) + strings.Repeat("]", 66), strings.Repeat("[", 64) + `"<max-depth>"` + strings.Repeat("]", 64)},
		{"text at the last depth", strings.Repeat("[", 64) + `"x"` + strings.Repeat("]", 64), strings.Repeat("[", 64) + `"x"` + strings.Repeat("]", 64)},
		{"objects below depth 64", strings.Repeat(`{"a":`, 66) + `"}"` + strings.Repeat("}", 66), strings.Repeat(`{"a":`, 64) + `"<max-depth>"` + strings.Repeat("}", 64)},
		{"nothing", "", "{}"},
		{"space", " \n", "{}"},
		{"no JSON", `{"a":`, `"{\"a\":"`},
		{"html signs stay", `"<a>&"`, `"<a>&"`},
		{"broken UTF-8", "\"a\xff\"", `"a` + "\ufffd" + `"`},
		{"long number", strings.Repeat("1", 300), `"` + strings.Repeat("1", 256) + `…"`},
		{"known shape in a string", `{"command":"curl -H sk-CANARY-7f3a"}`, `{"command":"curl -H <redacted>"}`},
		{"assignment in a string", `{"command":"TOKEN=abc ./run"}`, `{"command":"TOKEN=<redacted> ./run"}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := []byte(tc.in)
			got := excerpt(&Registry{}, in)
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if string(in) != tc.in {
				t.Error("the input was changed")
			}
		})
	}
}

// An excerpt is read by someone who decides about the command in it: no part
// of a command may disappear behind a mark.
func TestExcerptHidesNoCommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		`TOKEN="$(rm -rf /)" true`,
		"TOKEN=`reboot`",
		`echo '-----BEGIN PRIVATE KEY-----'` + "\nreboot\n" + `echo '-----END PRIVATE KEY-----'`,
		"-----BEGIN PRIVATE KEY-----\nreboot\nhalt\n",
		`password: {rm -rf /}`,
		`Authorization: x; rm -rf /`,
		`curl "https://a:b$(reboot)@c"`,
	} {
		in, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal(excerpt(&Registry{}, in), &got); err != nil {
			t.Fatal(err)
		}
		if got != command {
			t.Errorf("got %q, want %q", got, command)
		}
	}
}

func TestExcerptHidesKnownSecrets(t *testing.T) {
	t.Parallel()
	var known Registry
	known.Add("correct horse; battery")
	got := string(excerpt(&known, []byte(`{"a":"say correct horse; battery now","correct horse; battery":1}`)))
	if want := `{"a":"say <redacted> now","<redacted>":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Masking comes before clipping: half a secret would not be recognised.
func TestExcerptMasksBeforeItClips(t *testing.T) {
	t.Parallel()
	var known Registry
	known.Add("correct-horse-battery")
	in := `"` + strings.Repeat("a", 250) + `correct-horse-battery"`
	got := string(excerpt(&known, []byte(in)))
	if strings.Contains(got, "corr") || !strings.HasSuffix(got, `<redac…"`) {
		t.Errorf("got %s", got)
	}
}
