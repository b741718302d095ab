package protocol

import "testing"

func TestWithFunctionID(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, baggage, id, want string }{
		{"recorded", "k=v", "ora::echo", "iii.function.id=ora::echo,k=v"},
		{"none before", "", "f", "iii.function.id=f"},
		{"replaces", "a=1,iii.function.id=old,b=2;p=1", "f", "iii.function.id=f,a=1,b=2;p=1"},
		{"replaces with space and properties", " iii.function.id = old;p , a = 1 ,iii.function.id", "f", "iii.function.id=f,a = 1"},
		{"empty members go", ",, ,a=1,", "f", "iii.function.id=f,a=1"},
		{"similar names stay", "iii.function.idx=1,xiii.function.id=2", "f", "iii.function.id=f,iii.function.idx=1,xiii.function.id=2"},
		{"id cannot add members", "", `f,a=1;"\ %é`, "iii.function.id=f%2Ca=1%3B%22%5C%20%25%C3%A9"},
		{"parentheses are fine", "", "stream::get(chat)", "iii.function.id=stream::get(chat)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := WithFunctionID(tt.baggage, tt.id); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
