package control

import (
	"runtime/debug"
	"strings"
)

// moduleVersion reads a library's version from what the linker noted about this program.
func moduleVersion(path string) string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dependency := range build.Deps {
		if dependency.Path == path {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return "unknown"
}
