package protocol

import "testing"

func TestCanonicalID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, id, want string
		ok             bool
	}{
		{"as is", someID, someID, true},
		{"upper case", "F8C23D33-71FE-443A-B98A-E7A6AD62342A", "f8c23d33-71fe-443a-b98a-e7a6ad62342a", true},
		{"no dashes", "F8c23d3371fe443ab98ae7a6ad62342a", "f8c23d33-71fe-443a-b98a-e7a6ad62342a", true},
		{"any version", "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000", true},
		{"empty", "", "", false},
		{"short", "abc", "", false},
		{"braces", "{f8c23d33-71fe-443a-b98a-e7a6ad62342a}", "", false},
		{"dash in the wrong place", "f8c23d3-371fe-443a-b98a-e7a6ad62342a", "", false},
		{"digit for a dash", "f8c23d33071fe-443a-b98a-e7a6ad62342a", "", false},
		{"dashes only", "------------------------------------", "", false},
		{"no hex digit", "g8c23d33-71fe-443a-b98a-e7a6ad62342a", "", false},
		{"no hex digit, no dashes", "f8c23d3371fe443ab98ae7a6ad62342-", "", false},
		{"36 bytes of runes", "éééééééééééééééééé", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, ok := CanonicalID(tt.id); got != tt.want || ok != tt.ok {
				t.Errorf("got %q, %t", got, ok)
			}
		})
	}
}
