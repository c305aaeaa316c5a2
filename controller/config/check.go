package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
)

// crossCheck is for what one value alone does not show. It refuses what would quietly give less
// than was asked for: access control, encryption, replication.
func (s *Static) crossCheck() ([]Warning, error) {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if dirs := splitList(s.Get("log.dirs")); len(dirs) > 1 {
		add("log.dirs names %d directories (%s): one broker has one data directory; join the "+
			"disks below it, or run one broker per disk", len(dirs), strings.Join(dirs, ", "))
	}
	if node, ok := s.values["node.id"]; ok {
		if broker, ok := s.values["broker.id"]; ok && broker != "-1" && broker != node {
			add("node.id %s and broker.id %s differ: set one of them", node, broker)
		}
	}
	if roles, ok := s.values["process.roles"]; ok && roles == "controller" {
		add("process.roles=controller: a broker here is its own controller; use broker,controller")
	}
	if id, ok := s.values["sluice.cluster.id"]; ok && id != "" {
		if _, err := kafkaproto.ParseTopicID(id); err != nil {
			add("sluice.cluster.id %q is not 22 characters of URL-safe base64", id)
		}
	}
	s.checkSessions(add)
	if err := s.checkHTTP(); err != nil {
		errs = append(errs, err)
	}
	if _, err := s.listeners(); err != nil {
		errs = append(errs, err)
	}
	warnings, err := s.checkAuthorizer()
	if err != nil {
		errs = append(errs, err)
	}
	if _, err := parseIPOverrides(s.Get("max.connections.per.ip.overrides")); err != nil {
		errs = append(errs, err)
	}
	return warnings, errors.Join(errs...)
}

func (s *Static) checkSessions(add func(format string, args ...any)) {
	low, _ := strconv.ParseInt(s.Get("group.min.session.timeout.ms"), 10, 64)
	high, _ := strconv.ParseInt(s.Get("group.max.session.timeout.ms"), 10, 64)
	if low > high {
		add("group.min.session.timeout.ms (%d) is above group.max.session.timeout.ms (%d)", low, high)
	}
}

// checkAuthorizer refuses to run open where access control was asked for.
func (s *Static) checkAuthorizer() ([]Warning, error) {
	class := s.Get("authorizer.class.name")
	if class == "" {
		return nil, nil
	}
	if s.values["allow.everyone.if.no.acl.found"] == "true" {
		return []Warning{{Key: "authorizer.class.name", Text: "access control is not served yet: " +
			"every client may do everything"}}, nil
	}
	return nil, fmt.Errorf("authorizer.class.name is %s, but access control is not served yet and "+
		"every client could do everything: remove the key, or accept that by "+
		"allow.everyone.if.no.acl.found=true", class)
}

// parseIPOverrides reads host:count pairs.
func parseIPOverrides(value string) (map[string]int, error) {
	overrides := make(map[string]int)
	for _, item := range strings.Split(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		i := strings.LastIndexByte(item, ':')
		if i <= 0 {
			return nil, invalid("max.connections.per.ip.overrides", value, "not host:count pairs")
		}
		n, err := strconv.Atoi(strings.TrimSpace(item[i+1:]))
		if err != nil || n < 0 {
			return nil, invalid("max.connections.per.ip.overrides", value, "not host:count pairs")
		}
		overrides[strings.Trim(item[:i], "[]")] = n
	}
	return overrides, nil
}
