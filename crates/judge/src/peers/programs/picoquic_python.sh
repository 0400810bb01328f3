#!/bin/sh
# Makes venv in this folder with a Python of 3.12 or later: one that uv finds here or fetches from
# GitHub, and where it gets none, the one in a Go module that carries CPython.
set -eu

export UV_PYTHON_INSTALL_DIR="$PWD/python"
if tools/bin/uv venv --quiet --clear --python '>=3.12' venv; then
    exit
fi
mkdir -p module
cd module
cat >main.go <<'END'
package main

import (
	"log"
	"os"

	"github.com/kluctl/go-embed-python/python"
)

func main() {
	if _, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false); err != nil {
		log.Fatal(err)
	}
}
END
[ -e go.mod ] || go mod init module
go get github.com/kluctl/go-embed-python/python@v0.0.0-3.14.6-20260610-1
go run . "$UV_PYTHON_INSTALL_DIR"
cd ..
tools/bin/uv venv --quiet --clear --python "$UV_PYTHON_INSTALL_DIR/bin/python3.14" venv
