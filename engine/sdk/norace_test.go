//go:build !race

package sdk

var buildFlags []string
