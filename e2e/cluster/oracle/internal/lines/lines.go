// SPDX-License-Identifier: Apache-2.0

// Package lines is the protocol of the oracles: one JSON case per line on stdin, one JSON result per line on stdout, in the same
// order. Each result is flushed at once, so that a failing case can be shrunk interactively.
package lines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Answer applies f to every case until the end of stdin. An invalid line is an error of the caller and ends the program.
func Answer[C any](f func(*C) any) {
	if err := answer(os.Stdin, os.Stdout, f); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
}

func answer[C any](in io.Reader, out io.Writer, f func(*C) any) error {
	r := bufio.NewReaderSize(in, 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var c C
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&c); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(f(&c)); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			if _, err := out.Write(b.Bytes()); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}
