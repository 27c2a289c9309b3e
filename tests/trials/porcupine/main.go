// Judges a history that `cargo trials faults` recorded, with porcupine: another
// language, another method, and none of our code.
//
// It looks at values only, never at revisions: each key is a register with put,
// get, compare-and-swap and delete, and some order of the operations that agrees
// with real time has to explain what every client saw. Writes of unknown outcome
// may take effect at any later time. Keys with leases are left out, because they
// vanish without a client, and serializable reads, because they may be old.
//
//	porcupine HISTORY   0: possible   1: impossible   2: not known in time
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// Keys of leases.
	leased = "l/"
	// One key's history takes no longer, or is not known.
	patience = 60 * time.Second
	// A line holds a whole watch.
	lineBytesMax = 1 << 30
)

type version struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Modified int64  `json:"modified"`
}

// line is an operation; other lines of the file have no operation.
type line struct {
	Operation    string      `json:"operation"`
	Client       int         `json:"client"`
	Called       int64       `json:"called"`
	Returned     int64       `json:"returned"`
	Outcome      string      `json:"outcome"`
	Key          string      `json:"key"`
	End          string      `json:"end"`
	At           int64       `json:"at"`
	Serializable bool        `json:"serializable"`
	Previous     bool        `json:"previous"`
	Value        string      `json:"value"`
	Expected     int64       `json:"expected"`
	Puts         [][2]string `json:"puts"`
	Revision     int64       `json:"revision"`
	Succeeded    bool        `json:"succeeded"`
	Versions     []version   `json:"versions"`
}

type kind int

const (
	get kind = iota
	put
	remove
	swap
)

// input is what was asked of one key.
type input struct {
	kind  kind
	value string
	// Of a swap: the value that the key must have; "" if it must not be there.
	expected string
}

// output is what the client saw. A value of "" is a key that is not there.
type output struct {
	known bool
	// Whether `seen` says anything: what a get found, or what was there before.
	looked    bool
	seen      string
	succeeded bool
}

// step says whether an operation may have gone so, and what the key is then.
func step(state, in, out any) (bool, any) {
	now, asked, saw := state.(string), in.(input), out.(output)
	if saw.looked && saw.seen != now {
		return false, now
	}
	switch asked.kind {
	case get:
		return true, now
	case put:
		return true, asked.value
	case remove:
		return !saw.known || saw.succeeded == (now != ""), ""
	default:
		fits := now == asked.expected
		if saw.known && saw.succeeded != fits {
			return false, now
		}
		if fits {
			return true, asked.value
		}
		return true, now
	}
}

func describe(in, out any) string {
	asked, saw := in.(input), out.(output)
	name := [...]string{"get", "put", "delete", "swap"}[asked.kind]
	text := fmt.Sprintf("%s %s", name, asked.value)
	if asked.kind == swap {
		text += fmt.Sprintf(" if %q", asked.expected)
	}
	if !saw.known {
		return text + " -> unknown"
	}
	return text + fmt.Sprintf(" -> %v %q", saw.succeeded, saw.seen)
}

var register = porcupine.Model{
	Init:              func() any { return "" },
	Step:              step,
	DescribeOperation: describe,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine HISTORY")
		os.Exit(3)
	}
	lines, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(judge(histories(lines)))
}

// read takes the operations that were answered or may have happened.
func read(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 1<<20), lineBytesMax)
	var lines []line
	for number := 1; scanner.Scan(); number++ {
		if !strings.Contains(scanner.Text(), `"operation":`) {
			continue
		}
		var one line
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if one.Outcome != "refused" && one.Key != "" && !strings.HasPrefix(one.Key, leased) {
			lines = append(lines, one)
		}
	}
	return lines, scanner.Err()
}

// histories takes what was done apart by key: a history is linearizable only if
// that of each key is.
func histories(lines []line) map[string][]porcupine.Operation {
	values := namesOfVersions(lines)
	keys := keysOf(lines)
	all := map[string][]porcupine.Operation{}
	for _, one := range lines {
		add := func(key string, in input, out output) {
			operation := porcupine.Operation{
				ClientId: one.Client, Input: in, Call: one.Called, Output: out, Return: one.Returned,
			}
			if !out.known {
				operation.Return = math.MaxInt64
			}
			all[key] = append(all[key], operation)
		}
		split(one, values, keys, add)
	}
	return all
}

// split gives each key of an operation its part.
func split(one line, values map[version]string, keys []string, add func(string, input, output)) {
	known := one.Outcome == "done"
	out := output{known: known, succeeded: one.Succeeded}
	switch one.Operation {
	case "put":
		out.looked = known && one.Previous
		out.seen = valueOf(one.Key, one.Versions)
		add(one.Key, input{kind: put, value: one.Value}, out)
	case "delete":
		out.looked = known
		out.seen = valueOf(one.Key, one.Versions)
		add(one.Key, input{kind: remove}, out)
	case "get":
		if !known || one.Serializable || one.At > 0 {
			return
		}
		out.looked = true
		for _, key := range inRange(keys, one.Key, one.End) {
			out.seen = valueOf(key, one.Versions)
			add(key, input{kind: get}, out)
		}
	case "swap":
		splitSwap(one, values, out, add)
	}
}

// splitSwap: the compared key is swapped; other keys are put if that is known, and
// perhaps put if it is not.
func splitSwap(one line, values map[version]string, out output, add func(string, input, output)) {
	out.looked = out.known && !one.Succeeded
	out.seen = valueOf(one.Key, one.Versions)
	expected := ""
	if one.Expected > 0 {
		value, seen := values[version{Key: one.Key, Modified: one.Expected}]
		if !seen {
			panic(fmt.Sprintf("client %d compares with a version that nobody saw", one.Client))
		}
		expected = value
	}
	for _, pair := range one.Puts {
		switch {
		case pair[0] == one.Key:
			add(pair[0], input{kind: swap, value: pair[1], expected: expected}, out)
		case !out.known || one.Succeeded:
			part := output{known: out.known, succeeded: one.Succeeded}
			add(pair[0], input{kind: put, value: pair[1]}, part)
		}
	}
}

func valueOf(key string, versions []version) string {
	for _, it := range versions {
		if it.Key == key {
			return it.Value
		}
	}
	return ""
}

// namesOfVersions turns the revisions that swaps compare with into values: a
// client that names one has seen it, or has written it.
func namesOfVersions(lines []line) map[version]string {
	values := map[version]string{}
	for _, one := range lines {
		for _, it := range one.Versions {
			values[version{Key: it.Key, Modified: it.Modified}] = it.Value
		}
		if one.Outcome != "done" || !one.Succeeded {
			continue
		}
		if one.Operation == "put" {
			values[version{Key: one.Key, Modified: one.Revision}] = one.Value
		}
		for _, pair := range one.Puts {
			values[version{Key: pair[0], Modified: one.Revision}] = pair[1]
		}
	}
	return values
}

// keysOf lists every key that was written, sorted.
func keysOf(lines []line) []string {
	seen := map[string]bool{}
	for _, one := range lines {
		if one.Operation == "put" {
			seen[one.Key] = true
		}
		for _, pair := range one.Puts {
			seen[pair[0]] = true
		}
	}
	keys := make([]string, 0, len(seen))
	for key := range seen {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func inRange(keys []string, first, end string) []string {
	if end == "" {
		return []string{first}
	}
	from := sort.SearchStrings(keys, first)
	to := sort.SearchStrings(keys, end)
	return keys[from:max(from, to)]
}

func judge(all map[string][]porcupine.Operation) int {
	began := time.Now()
	keys := make([]string, 0, len(all))
	operations := 0
	for key, history := range all {
		keys = append(keys, key)
		operations += len(history)
	}
	sort.Strings(keys)
	var impossible, unknown []string
	for _, key := range keys {
		switch porcupine.CheckOperationsTimeout(register, all[key], patience) {
		case porcupine.Illegal:
			impossible = append(impossible, key)
		case porcupine.Unknown:
			unknown = append(unknown, key)
		}
	}
	fmt.Printf("porcupine: %d keys, %d operations, %.1f s: %d keys impossible %v, %d unknown %v\n",
		len(keys), operations, time.Since(began).Seconds(),
		len(impossible), few(impossible), len(unknown), few(unknown))
	switch {
	case len(impossible) > 0:
		return 1
	case len(unknown) > 0:
		return 2
	default:
		return 0
	}
}

func few(keys []string) []string {
	return keys[:min(len(keys), 10)]
}
