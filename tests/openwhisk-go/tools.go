//go:build tools

// Package openwhiskgo drives Flint with OpenWhisk's Go programs. This file pins wskdeploy, which the suite builds from its sources.
package openwhiskgo

import _ "github.com/apache/openwhisk-wskdeploy"
