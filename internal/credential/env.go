package credential

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

// Names is every variable, for those that must keep them from others.
func Names() []string {
	seen := map[string]bool{}
	var out []string
	for _, v := range EnvVars {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}
