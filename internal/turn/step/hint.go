package step

import (
	"fmt"
	"strings"
)

// Hint tells a model that used an id nobody serves what to do instead.
func Hint(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) == 1 {
		return "No worker serves this id. Look it up with engine::functions::list, or read the worker's skill with directory::skills::get."
	}
	const why = "Ids of skills are not function ids: a skill is a text to read, a function is called by a namespaced id such as worker::function."
	if guess := guess(parts); guess != "" {
		return fmt.Sprintf("Did you mean %s? %s", guess, why)
	}
	return why
}

// guess reads the path of a skill as the function that it describes.
func guess(parts []string) string {
	if len(parts) > 3 && parts[1] == "skills" && parts[2] == parts[0] {
		return parts[0] + "::" + strings.Join(parts[3:], "::")
	}
	if len(parts) == 2 && parts[1] != "index" && parts[0] != "" && parts[1] != "" {
		return parts[0] + "::" + parts[1]
	}
	return ""
}
