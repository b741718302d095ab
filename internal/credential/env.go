package credential

import (
	"maps"
	"slices"
)

// EnvVars is the environment variable of each provider.
var EnvVars = map[string]string{
	"anthropic":         "ANTHROPIC_API_KEY",
	"openai":            "OPENAI_API_KEY",
	"openai-codex":      "OPENAI_API_KEY",
	"azure-openai":      "AZURE_OPENAI_API_KEY",
	"google":            "GOOGLE_API_KEY",
	"google-vertex":     "GOOGLE_APPLICATION_CREDENTIALS",
	"amazon-bedrock":    "AWS_ACCESS_KEY_ID",
	"mistral":           "MISTRAL_API_KEY",
	"groq":              "GROQ_API_KEY",
	"cerebras":          "CEREBRAS_API_KEY",
	"xai":               "XAI_API_KEY",
	"deepseek":          "DEEPSEEK_API_KEY",
	"openrouter":        "OPENROUTER_API_KEY",
	"vercel-ai-gateway": "VERCEL_AI_GATEWAY_API_KEY",
	"zai":               "ZAI_API_KEY",
	"minimax":           "MINIMAX_API_KEY",
	"huggingface":       "HF_TOKEN",
	"fireworks":         "FIREWORKS_API_KEY",
	"kimi":              "MOONSHOT_API_KEY",
	"kimi-coding":       "MOONSHOT_API_KEY",
	"lmstudio":          "LMSTUDIO_API_KEY",
	"opencode-zen":      "OPENCODE_ZEN_API_KEY",
	"opencode-go":       "OPENCODE_GO_API_KEY",
}

// Names is every variable, sorted, for those that must keep them from others.
func Names() []string {
	names := slices.Sorted(maps.Values(EnvVars))
	return slices.Compact(names)
}

// Found is one variable of the environment that holds a key.
type Found struct {
	Provider  string `json:"provider"`
	EnvVar    string `json:"env_var"`
	KeyPrefix string `json:"key_prefix"`
}

// prefixRunes is how much of a key a list may show.
const prefixRunes = 8

// Scan lists the providers whose variable is set, by provider, with the first 8
// characters of the key, and makes the keys known.
func (s *Store) Scan() []Found {
	var out []Found
	for _, provider := range slices.Sorted(maps.Keys(EnvVars)) {
		name := EnvVars[provider]
		key := []rune(s.deps.Getenv(name))
		if len(key) == 0 {
			continue
		}
		s.deps.Known(string(key))
		out = append(out, Found{Provider: provider, EnvVar: name, KeyPrefix: string(key[:min(prefixRunes, len(key))])})
	}
	return out
}
