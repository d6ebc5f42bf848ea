package keywright

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The shared vectors: VECTORS is their folder.
func TestVectors(t *testing.T) {
	folder := os.Getenv("VECTORS")
	if folder == "" {
		folder = "../vectors"
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	cases, slowest := 0, time.Duration(0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vectors struct {
			Cases []struct {
				Name, Text, Issuer, Product, Fingerprint, Nonce, Operation, Body, Result, State string
				Valid                                                                           bool
				Now                                                                             int64
				PadTo                                                                           int      `json:"pad_to"`
				PublicKeys                                                                      []string `json:"public_keys"`
				KeySets                                                                         []string `json:"key_sets"`
				LicenseKey                                                                      string   `json:"license_key"`
				BuiltAt                                                                         string   `json:"built_at"`
			}
		}
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatal(err)
		}
		for _, one := range vectors.Cases {
			cases++
			if missing := one.PadTo - len(one.Text); missing > 0 {
				one.Text += strings.Repeat(" ", missing)
			}
			began := time.Now()
			keys, _ := FollowKeySets(one.PublicKeys, one.KeySets, one.Now)
			want := Expected{keys, one.Issuer, one.Product, one.LicenseKey, one.Fingerprint, one.BuiltAt, one.Nonce, one.Operation, one.Body, time.Unix(one.Now, 0), false}
			claims, err := Verify(one.Text, want)
			if took := time.Since(began); took > slowest {
				slowest = took
			}
			found := "ok"
			if problem, _ := err.(*Error); problem != nil {
				found = problem.Code
			}
			if one.Name == "a good answer" {
				refuseAltered(t, one.Text, want)
			}
			if found != one.Result || found == "ok" && (claims["valid"] != one.Valid || StateOf(claims) != one.State) {
				t.Errorf("%s: %s: %s, not %s %s", filepath.Base(file), one.Name, found, one.Result, one.State)
			}
		}
	}
	if cases == 0 {
		t.Fatal("there are no cases")
	}
	t.Logf("%d cases, slowest %.1f ms", cases, float64(slowest.Microseconds())/1000)
}

// No bit of a good answer can be altered.
func refuseAltered(t *testing.T, text string, want Expected) {
	accepted := 0
	for bit := 0; bit < len(text)*8; bit++ {
		altered := []byte(text)
		altered[bit/8] ^= 1 << (bit % 8)
		if _, err := Verify(string(altered), want); err == nil {
			accepted++
			t.Errorf("bit %d was altered, and it is accepted", bit)
		}
	}
	t.Logf("%d altered, %d accepted", len(text)*8, accepted)
	began := time.Now()
	for i := 0; i < 200; i++ {
		_, _ = Verify(text, want)
	}
	t.Logf("one verification: %.3f ms", time.Since(began).Seconds()*5)
}
