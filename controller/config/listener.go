package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name string
	// Protocol is PLAINTEXT or SSL.
	Protocol string
	// Host is empty for "all interfaces".
	Host string
	Port int32
}

// Addr is host:port, as net.Listen takes it.
func (l Listener) Addr() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

// listenerSet is what the listener keys say together.
type listenerSet struct {
	client     []Listener // to be opened for clients
	advertised []Listener // empty: chosen per connection
}

var listenerForm = regexp.MustCompile(
	`^([^:/]+)://(?:\[([0-9a-zA-Z:.%_-]*)\]|([^\[\]/]*)):([0-9]{1,5})$`)

func parseListener(key, item string) (Listener, error) {
	m := listenerForm.FindStringSubmatch(item)
	if m == nil {
		return Listener{}, invalid(key, item, "not of the form NAME://host:port")
	}
	port, err := strconv.ParseUint(m[4], 10, 16)
	if err != nil {
		return Listener{}, invalid(key, item, "the port is above 65535")
	}
	return Listener{Name: strings.ToUpper(m[1]), Host: m[2] + m[3], Port: int32(port)}, nil
}

// listeners joins listeners, advertised.listeners, controller.listener.names and
// listener.security.protocol.map. Kafka's controller listeners are left out: they are not opened.
func (s *Static) listeners() (listenerSet, error) {
	protocols, err := s.protocolMap()
	if err != nil {
		return listenerSet{}, err
	}
	controllers := splitList(strings.ToUpper(s.Get("controller.listener.names")))
	var set listenerSet
	var errs []error
	for _, item := range splitList(s.Get("listeners")) {
		l, err := parseListener("listeners", item)
		if err != nil {
			return listenerSet{}, err
		}
		if slices.Contains(controllers, l.Name) {
			continue
		}
		if l.Protocol, err = protocolOf(protocols, l.Name); err != nil {
			errs = append(errs, err)
		}
		set.client = append(set.client, l)
	}
	errs = append(errs, s.checkListeners(set.client)...)
	advertised := s.Get("advertised.listeners")
	if strings.EqualFold(advertised, "auto") {
		advertised = ""
	}
	for _, item := range splitList(advertised) {
		l, err := parseListener("advertised.listeners", item)
		if err != nil {
			return listenerSet{}, err
		}
		if slices.Contains(controllers, l.Name) {
			continue
		}
		errs = append(errs, checkAdvertised(set, l)...)
		l.Protocol, _ = protocolOf(protocols, l.Name)
		set.advertised = append(set.advertised, l)
	}
	return set, errors.Join(errs...)
}

func (s *Static) checkListeners(client []Listener) (errs []error) {
	if len(client) == 0 {
		errs = append(errs, errors.New("listeners names no listener for clients"))
	}
	for i, l := range client {
		for _, other := range client[:i] {
			if other.Name == l.Name {
				errs = append(errs, fmt.Errorf("listeners: each listener must have a different "+
					"name, but %s stands there twice", l.Name))
			}
			if l.Port != 0 && other.Addr() == l.Addr() {
				errs = append(errs, fmt.Errorf("listeners: %s and %s both listen on %s",
					other.Name, l.Name, l.Addr()))
			}
		}
		if l.Protocol == "SSL" {
			if err := s.tls(l.Name).check(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

func checkAdvertised(set listenerSet, l Listener) (errs []error) {
	if !slices.ContainsFunc(set.client, func(c Listener) bool { return c.Name == l.Name }) {
		errs = append(errs, fmt.Errorf("advertised.listeners names %s, which is not in listeners",
			l.Name))
	}
	if slices.ContainsFunc(set.advertised, func(a Listener) bool { return a.Name == l.Name }) {
		errs = append(errs, fmt.Errorf("advertised.listeners names %s twice", l.Name))
	}
	switch {
	case l.Host == "":
		errs = append(errs, fmt.Errorf("advertised.listeners: %s has no host that a client could "+
			"connect to; leave the key out to have it chosen for each connection", l.Name))
	case l.Host == "0.0.0.0" || l.Host == "::":
		errs = append(errs, fmt.Errorf("advertised.listeners cannot use the nonroutable "+
			"meta-address %s. Use a routable IP address, or leave the key out", l.Host))
	}
	return errs
}

// protocolMap reads listener.security.protocol.map.
func (s *Static) protocolMap() (map[string]string, error) {
	const key = "listener.security.protocol.map"
	protocols := make(map[string]string)
	value := s.Get(key)
	for _, item := range strings.Split(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, protocol, ok := strings.Cut(item, ":")
		if !ok {
			return nil, invalid(key, value, "not NAME:PROTOCOL pairs")
		}
		protocols[strings.ToUpper(strings.TrimSpace(name))] =
			strings.ToUpper(strings.TrimSpace(protocol))
	}
	return protocols, nil
}

func protocolOf(protocols map[string]string, name string) (string, error) {
	switch protocol := protocols[name]; protocol {
	case "PLAINTEXT", "SSL":
		return protocol, nil
	case "SASL_PLAINTEXT", "SASL_SSL":
		return "", fmt.Errorf("listener %s asks for %s, which is not served yet: use SSL with "+
			"ssl.client.auth=required, or PLAINTEXT", name, protocol)
	case "":
		return "", fmt.Errorf("no security protocol defined for listener %s: add it to "+
			"listener.security.protocol.map", name)
	default:
		return "", fmt.Errorf("listener.security.protocol.map gives listener %s the unknown "+
			"protocol %s", name, protocol)
	}
}

// checkHTTP checks sluice.http.listeners.
func (s *Static) checkHTTP() error {
	for _, item := range splitList(s.Get("sluice.http.listeners")) {
		_, port, err := net.SplitHostPort(httpAddr(item))
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return invalid("sluice.http.listeners", item, "not host:port")
		}
	}
	return nil
}

func httpAddr(item string) string { return strings.TrimPrefix(item, "http://") }
