// Package quorum keeps the metadata on its own log and publishes it as images.
package quorum
