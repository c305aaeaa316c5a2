package diff

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// target is a broker under test.
type target interface {
	Address() string
	// Restart stops the broker cleanly and starts it again on the same data.
	Restart() error
}

// runner runs cases against one broker.
type runner struct {
	target   target
	identity BrokerIdentity
	nonce    string
	names    atomic.Int64
}

// caseRun is one run of one case.
type caseRun struct {
	*runner
	env         *environment
	connections map[string]*connection
	current     *connection
	setup       *connection // for topic, pid and the like, apart from the case's own
	last        kmsg.Response
	out         transcript
}

// run performs a case and returns what the broker did. An error means that the case could not be
// carried out, which no broker's answer alone causes.
func (r *runner) run(c *caseScript) (transcript, error) {
	run := &caseRun{
		runner: r, env: newEnvironment(r.identity, time.Now()),
		connections: map[string]*connection{}, out: transcript{name: c.name},
	}
	defer run.hangUpAll()
	for _, in := range c.steps {
		if err := run.step(in); err != nil {
			return run.out, fmt.Errorf("line %d, %s: %w", in.line, in.verb, err)
		}
	}
	return run.out, nil
}

func (r *caseRun) hangUpAll() {
	for _, c := range r.connections {
		c.Close()
	}
	if r.setup != nil {
		r.setup.Close()
	}
	r.connections, r.current, r.setup = map[string]*connection{}, nil, nil
}

func (r *caseRun) step(in instruction) error {
	switch in.verb {
	case "topic":
		return r.makeTopic(in)
	case "name":
		r.env.addName(in.words[0], r.freshName(in.words[0]))
		return nil
	case "pid":
		return r.makeProducer(in.words[0])
	case "conn":
		return r.useConnection(in)
	case "get":
		return r.remember(in.words[0], in.words[1])
	case "let":
		v, err := in.value.eval(r.env)
		r.env.values[in.words[0]] = v
		return err
	case "sleep":
		d, err := time.ParseDuration(in.words[0])
		time.Sleep(d)
		return err
	case "gone", "ready":
		return r.awaitTopic(in)
	case "restart":
		return r.restart()
	case "hangup":
		r.dropCurrent()
		return nil
	}
	return r.exchange(in)
}

// restart restarts the broker and waits until its group coordinator works again.
func (r *caseRun) restart() error {
	r.hangUpAll()
	if err := r.target.Restart(); err != nil {
		return err
	}
	_, err := identify(r.target.Address())
	return err
}

// freshName makes a name that no other case and no earlier run on this broker has used. It sorts by
// the variable, so that a broker's order of topics is the same in every run.
func (r *runner) freshName(variable string) string {
	return fmt.Sprintf("x%s.%d.%s", r.nonce, r.names.Add(1), variable)
}

// open returns the connection in use, opening it when there is none.
func (r *caseRun) open() (*connection, error) {
	if r.current != nil {
		return r.current, nil
	}
	client := defaultClient
	c, err := dial(r.target.Address(), &client)
	if err != nil {
		return nil, err
	}
	r.connections["A"], r.current = c, c
	return c, nil
}

func (r *caseRun) useConnection(in instruction) error {
	name := in.words[0]
	if c, ok := r.connections[name]; ok {
		r.current = c
		return nil
	}
	client := defaultClient
	id := &client
	if v, ok := in.modifiers["client"]; ok {
		if client = v; v == "null" {
			id = nil
		}
	}
	c, err := dial(r.target.Address(), id)
	if err != nil {
		return err
	}
	r.connections[name], r.current = c, c
	return nil
}

func (r *caseRun) dropCurrent() {
	for name, c := range r.connections {
		if c == r.current {
			c.Close()
			delete(r.connections, name)
		}
	}
	r.current = nil
}

// exchange carries out the verbs that write to or read from the connection.
func (r *caseRun) exchange(in instruction) error {
	c, err := r.open()
	if err != nil {
		return err
	}
	switch in.verb {
	case "send", "quiet":
		return r.send(c, in)
	case "post":
		request, err := r.request(in)
		if err != nil {
			return err
		}
		return ignoreClosed(c.post(request))
	case "frame", "raw":
		return r.writeRaw(c, in)
	case "recv":
		if len(in.words) > 0 {
			name, version, err := in.api()
			if err != nil {
				return err
			}
			if err := expectAnswer(c, name, version); err != nil {
				return err
			}
		}
		return r.receive(c, in, answerWithin)
	case "silent":
		within, err := time.ParseDuration(in.words[0])
		if err != nil {
			return err
		}
		return r.receive(c, in, within)
	case "close":
		return r.receive(c, in, 5*time.Second)
	}
	return fmt.Errorf("verb %s is not carried out", in.verb)
}

// ignoreClosed drops an error of writing: a broker that has closed the connection is found out by
// the read that follows.
func ignoreClosed(err error) error {
	if err != nil {
		if _, closed := endOf(err); closed == nil {
			return nil
		}
	}
	return err
}

func expectAnswer(c *connection, name string, version int16) error {
	key, ok := keyOf(name)
	if !ok {
		return fmt.Errorf("no API %s", name)
	}
	c.pending = append(c.pending, expected{key, version, rawCorrelation})
	return nil
}

func (r *caseRun) writeRaw(c *connection, in instruction) error {
	v, err := in.value.eval(r.env)
	if err != nil {
		return err
	}
	b, err := toBytes(v)
	if err != nil {
		return err
	}
	if len(in.words) > 0 {
		name, version, err := in.api()
		if err != nil {
			return err
		}
		if err := expectAnswer(c, name, version); err != nil {
			return err
		}
	}
	if in.verb == "raw" {
		_, err := c.Write(b)
		return ignoreClosed(err)
	}
	return ignoreClosed(c.frame(b))
}

// request builds the request of a send or post.
func (r *caseRun) request(in instruction) (kmsg.Request, error) {
	name, version, err := in.api()
	if err != nil {
		return nil, err
	}
	body := object{}
	if in.value != nil {
		v, err := in.value.eval(r.env)
		if err != nil {
			return nil, err
		}
		body, _ = v.(object)
	}
	return newRequest(name, version, body)
}

// send writes a request and records the answer; with until=PATH:VALUE it asks again, for up to ten
// seconds, until the answer has that value, because some effects are not there at once.
func (r *caseRun) send(c *connection, in instruction) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		request, err := r.request(in)
		if err != nil {
			return err
		}
		if err := ignoreClosed(c.post(request)); err != nil {
			return err
		}
		before := len(r.out.steps)
		if err := r.receive(c, in, answerWithin); err != nil {
			return err
		}
		condition, ok := in.modifiers["until"]
		if !ok || time.Now().After(deadline) || r.holds(condition) {
			return nil
		}
		r.out.steps = r.out.steps[:before]
		time.Sleep(20 * time.Millisecond)
	}
}

// holds says whether the last answer has a value: PATH:VALUE, or PATH!VALUE for any other value.
func (r *caseRun) holds(condition string) bool {
	at := strings.LastIndexAny(condition, ":!")
	if at < 0 || r.last == nil {
		return false
	}
	v, err := lookUp(r.last, condition[:at])
	if err != nil {
		return false
	}
	return (fmt.Sprint(v) == condition[at+1:]) == (condition[at] == ':')
}

// receive waits for what comes and records it.
func (r *caseRun) receive(c *connection, in instruction, within time.Duration) error {
	start := time.Now()
	o, err := c.receive(within)
	if err != nil {
		return err
	}
	took := time.Since(start)
	label := strings.Join(append([]string{in.verb}, in.words...), " ")
	how := group{path: "."}
	if o.word != outcomeAnswer {
		how.fields = append(how.fields, field{name: "outcome", value: o.word})
		r.last = nil
		if o.word == outcomeClosed {
			r.dropCurrent()
		}
	}
	if limit, ok := in.modifiers["took"]; ok {
		d, err := time.ParseDuration(limit)
		if err != nil {
			return err
		}
		how.fields = append(how.fields, field{name: "took", value: tookWord(took, d, limit)})
	}
	var answer []group
	if o.word == outcomeAnswer {
		if answer, err = r.record(o, in, &how); err != nil {
			return err
		}
	}
	if len(how.fields) > 0 {
		answer = append([]group{how}, answer...)
	}
	if slices.Contains(recorded, in.verb) {
		r.out.steps = append(r.out.steps, step{label: label, groups: answer})
	}
	return nil
}

func tookWord(took, limit time.Duration, text string) string {
	if took < limit {
		return "under-" + text
	}
	return "over-" + text
}

// record decodes an answer and notes what is odd about its frame.
func (r *caseRun) record(o outcome, in instruction, how *group) ([]group, error) {
	d, err := o.decode()
	if err != nil {
		how.fields = append(how.fields, field{name: "outcome", value: "undecodable", hint: err.Error()})
		r.last = nil
		return nil, nil
	}
	r.last = d.response
	if d.correlation != o.request.correlation {
		how.fields = append(how.fields, field{name: "correlation", value: "wrong", hint: strconv.Itoa(int(d.correlation))})
	}
	if d.version != o.request.version {
		how.fields = append(how.fields, field{name: "version", value: strconv.Itoa(int(d.version))})
	}
	if d.surplus != 0 {
		how.fields = append(how.fields, field{name: "surplus", value: strconv.Itoa(d.surplus)})
	}
	answer := r.env.dump(d.response)
	if only, ok := in.modifiers["mine"]; ok {
		answer = r.keepMine(answer, only)
	}
	return answer, nil
}

// keepMine drops the elements of a list that belong to no name of this case: other cases run beside
// it and leave topics and groups behind.
func (r *caseRun) keepMine(groups []group, list string) []group {
	prefix := list + "["
	return slices.DeleteFunc(groups, func(g group) bool {
		if !strings.HasPrefix(g.path, prefix) {
			return false
		}
		return !slices.ContainsFunc(r.env.names, func(name string) bool {
			return strings.HasPrefix(g.path, prefix+"$"+name+"]")
		})
	})
}

// remember stores a value of the last answer under a name.
func (r *caseRun) remember(name, path string) error {
	if r.last == nil {
		return fmt.Errorf("there is no last answer")
	}
	v, err := lookUp(r.last, path)
	if err != nil {
		return err
	}
	r.env.values[name] = v
	return nil
}

var pathPart = regexp.MustCompile(`^([A-Za-z0-9]+)(?:\[(\d+)\])?$`)

// lookUp reads a value of an answer by its path: Topics[0].Partitions[1].ErrorCode.
func lookUp(response kmsg.Response, path string) (any, error) {
	v := reflect.ValueOf(response).Elem()
	for _, part := range strings.Split(path, ".") {
		m := pathPart.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("%q is not a path", path)
		}
		if v = v.FieldByName(m[1]); !v.IsValid() {
			return nil, fmt.Errorf("%T has no %s", response, path)
		}
		if m[2] != "" {
			i, _ := strconv.Atoi(m[2])
			if i >= v.Len() {
				return nil, fmt.Errorf("%s has %d elements", part, v.Len())
			}
			v = v.Index(i)
		}
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case [16]byte:
		return uuid(x), nil
	case string, []byte, bool:
		return x, nil
	}
	if v.CanInt() {
		return v.Int(), nil
	}
	return nil, fmt.Errorf("%s is a %s", path, v.Type())
}
