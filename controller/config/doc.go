// Package config is the one registry of configuration keys: names, types, defaults, checks, texts.
package config
