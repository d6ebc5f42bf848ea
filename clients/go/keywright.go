// Package keywright licenses a program: activate, validate with signed answers, verify, and keep. MIT license.
package keywright

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// In seconds: how far a server's clock may be ahead of ours, and ours may move back.
const tolerance, maxBytes, minTime = 300, 65_536, -1 << 63
const licenseType, keysType = "keywright-license+jwt", "keywright-keys+jwt"
const disbelief = "the signed answer cannot be believed"
const begin, end = "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"

var states = map[string]string{"disabled": "disabled", "inactive": "disabled", "expired": "expired",
	"version_not_covered": "expired", "limit_reached": "limit_reached", "too_many_new_devices": "limit_reached",
	"lease_lost": "limit_reached", "valid": "valid", "grace": "grace", "unreachable": "unreachable_too_long",
	// Rules that a kept answer breaks: it was copied from another device, or made for another program.
	"device": "not_activated", "license_key": "not_activated", "audience": "not_activated", "issuer": "not_activated",
	"build": "unreachable_too_long"}

// Error has the rule that a signed answer breaks, or the code of the problem that the server answers.
type Error struct{ Code, Detail string }

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Claims are what a signed answer says.
type Claims map[string]any

// Expected is what an answer must fit; what is empty is not compared, but for BuiltAt (like 2026-11-22T08:54:00Z): what
// is for one build is refused by every other. PublicKeys are base64url of 32 bytes each.
type Expected struct {
	PublicKeys                                               []string
	Issuer, Product, LicenseKey, Fingerprint, BuiltAt, Nonce string
	Now                                                      time.Time
}

// Verify returns the claims of a signed answer or a license file, or an *Error.
func Verify(text string, want Expected) (claims Claims, err error) {
	defer rescue(&err)
	require(len(text) <= maxBytes, "too_large")
	claims = open(unarmour(text), licenseType, want.PublicKeys)
	claims.integer("iat")
	nbf, exp, now := claims.integer("nbf"), claims.integer("exp"), want.Now.Unix()
	valid, isBoolean := claims["valid"].(bool)
	require(isBoolean, "payload")
	require(want.Issuer == "" || claims["iss"] == want.Issuer, "issuer")
	require(want.Product == "" || claims["aud"] == want.Product, "audience")
	require(want.Now.IsZero() || nbf <= now+tolerance, "not_yet_valid")
	require(want.Now.IsZero() || now < exp, "expired")
	require(want.Fingerprint == "" || claims.fits("activation", "fingerprint", want.Fingerprint, !valid), "device")
	hash := sum("keywright-license-key:" + want.LicenseKey)
	require(want.LicenseKey == "" || claims.fits("license", "key_hash", hash, !valid), "license_key")
	require(claims["built_at"] == nil || claims["built_at"] == orNull(want.BuiltAt), "build")
	require(want.Nonce == "" || claims["nonce"] == want.Nonce, "nonce")
	return claims, nil
}

// FollowKeySets returns the keys to believe, and the sets that led to them: the newest set that a trusted key has
// signed takes the place of the trusted keys, again and again. A set that does not verify changes nothing.
func FollowKeySets(publicKeys, keySets []string, now int64) (trusted, sets []string) {
	since, taken := int64(minTime), map[string]bool{}
	for trusted = publicKeys; ; {
		newest, text, keys := since, "", trusted
		for _, one := range keySets {
			found, iat, err := openKeySet(one, trusted, now)
			if err == nil && !taken[one] && (iat > newest || iat == newest && text == "") {
				newest, text, keys = iat, one, found
			}
		}
		if trusted, since = keys, newest; text == "" {
			return trusted, sets
		}
		sets, taken[text] = append(sets, text), true
	}
}

func openKeySet(text string, trusted []string, now int64) (keys []string, iat int64, err error) {
	defer rescue(&err)
	require(len(text) <= maxBytes, "too_large")
	claims := open(text, keysType, trusted)
	jwks, _ := claims["keys"].([]any)
	for _, one := range jwks {
		jwk, _ := one.(map[string]any)
		if x, _ := jwk["x"].(string); jwk["kty"] == "OKP" && jwk["crv"] == "Ed25519" && len(decode(x)) == 32 {
			keys = append(keys, x)
		}
	}
	require(now < claims.integer("exp") && len(keys) > 0, "expired")
	return keys, claims.integer("iat"), nil
}

// The payload of a JWS, once its signature holds. The token brings no key; it only chooses one.
func open(token, kind string, publicKeys []string) (claims Claims) {
	parts, key := strings.Split(token, "."), ""
	require(len(parts) == 3, "not_three_parts")
	for _, x := range publicKeys {
		kid := sum(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`)
		for _, alg := range []string{"EdDSA", "Ed25519"} {
			if encode([]byte(`{"alg":"`+alg+`","kid":"`+kid+`","typ":"`+kind+`"}`)) == parts[0] && len(decode(x)) == 32 {
				key = x
			}
		}
	}
	require(key != "", "header")
	payload, signature := decode(parts[1]), decode(parts[2])
	require(payload != nil && signature != nil, "base64url")
	require(ed25519.Verify(decode(key), []byte(parts[0]+"."+parts[1]), signature), "signature")
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	decoder.UseNumber()
	require(utf8.Valid(payload) && json.Valid(payload) && decoder.Decode(&claims) == nil && claims != nil, "payload")
	return claims
}
func (c Claims) integer(name string) int64 {
	number, _ := c[name].(json.Number)
	value, err := number.Int64()
	require(err == nil, "payload")
	return value
}

// Whether it is for this device or key. Only an answer that says no may leave open for which it is.
func (c Claims) fits(claim, member, expected string, mayLack bool) bool {
	found, _ := c[claim].(map[string]any)
	return found[member] == expected || mayLack && c[claim] == nil
}

func unarmour(text string) string {
	first, lines := -1, strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimRight(line, " \t\r"); first >= 0 && lines[i] == end {
			return strings.Join(lines[first+1:i], "")
		} else if first < 0 && lines[i] == begin {
			first = i
		}
	}
	require(first < 0, "armour")
	return strings.Trim(text, " \t\r\n")
}
func require(condition bool, code string) {
	if !condition {
		panic(&Error{code, disbelief})
	}
}
func rescue(err *error) {
	if found := recover(); found != nil {
		*err = found.(*Error)
	}
}
func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// The bytes of base64url in its one form, without padding and with unused bits 0; nil for another text.
func decode(text string) []byte {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || encode(data) != text {
		return nil
	}
	return data
}
func sum(text string) string { hash := sha256.Sum256([]byte(text)); return encode(hash[:]) }

// Client is a program's license on this device. Set URL, Path (the file where it is kept), PublicKeys, Fingerprint (it
// names the device: 8 to 256 characters, no serial number) and, where wanted, Product, Issuer, AppVersion and HTTP.
type Client struct {
	Expected
	URL, Path, AppVersion string
	HTTP                  http.Client
}

// Status is what a program is told; State is one of those in the README, Err why the server gave no good answer.
type Status struct {
	Valid, IsOffline bool
	State            string
	Claims           Claims
	Err              error
}
type kept struct {
	LicenseKey, Answer string
	KeySets            []string
}

// Check asks the server when it is time, else uses what is kept.
func (c *Client) Check() Status {
	known, found := c.look()
	text, _ := found.Claims["next_check_at"].(string)
	if next, _ := time.Parse(time.RFC3339, text); known.LicenseKey == "" || found.Valid && time.Now().Before(next) {
		return found
	}
	fresh := c.ask("validate", known, "", !found.Valid)
	if fresh.Err == nil && !fresh.Valid && found.Valid {
		fresh = c.ask("validate", known, "", true) // A "no" is asked for again before it takes the place of what is kept.
	}
	if fresh.Err == nil {
		return fresh
	} else if found.Valid {
		found.State = "unreachable_but_valid_until"
	}
	found.IsOffline, found.Err = true, fresh.Err
	return found
}

// Activate takes a place for this device. A refusal changes nothing that is kept.
func (c *Client) Activate(licenseKey, name string) Status {
	known, _ := c.look()
	return c.ask("activate", kept{LicenseKey: licenseKey, KeySets: known.KeySets}, name, true)
}

// What is kept, and the status that it leads to by itself.
func (c *Client) look() (known kept, found Status) {
	text, err := os.ReadFile(c.Path)
	if os.IsNotExist(err) {
		return known, Status{State: "not_activated"}
	} else if err == nil {
		err = json.Unmarshal(text, &known)
	}
	claims, failed := c.verify(known, "")
	if problem, _ := failed.(*Error); err == nil && problem != nil && states[problem.Code] != "" {
		return known, Status{State: states[problem.Code], Err: failed}
	} else if err != nil || failed != nil {
		return known, Status{State: "tampered", Err: failed}
	} else if now := time.Now().Unix(); now < claims.integer("iat")-tolerance {
		return known, Status{State: "clock_moved_back"}
	} else if now < claims.integer("exp") {
		return known, status(claims, nil)
	}
	return known, Status{State: "unreachable_too_long"}
}

func (c *Client) verify(known kept, nonce string) (Claims, error) {
	want := c.Expected
	want.PublicKeys, _ = FollowKeySets(c.PublicKeys, known.KeySets, minTime)
	want.LicenseKey, want.Nonce = known.LicenseKey, nonce
	return Verify(known.Answer, want)
}

// Ask the server; keep an answer that can be believed.
func (c *Client) ask(call string, known kept, name string, keepsNo bool) Status {
	random := make([]byte, 18)
	if _, err := rand.Read(random); err != nil {
		return status(nil, err)
	}
	nonce, learnt := encode(random), struct{ Keys []string }{}
	body := map[string]any{"license_key": known.LicenseKey, "fingerprint": c.Fingerprint, "nonce": nonce,
		"product": orNull(c.Product), "app_version": orNull(c.AppVersion), "built_at": orNull(c.BuiltAt), "name": orNull(name)}
	claims, err := Claims(nil), error(nil)
	if known.Answer, err = c.send("POST", call, body); err == nil {
		claims, err = c.verify(known, nonce)
	}
	if problem, _ := err.(*Error); problem != nil && problem.Code == "header" {
		if text, failed := c.send("GET", "signing-keys", nil); failed == nil && json.Unmarshal([]byte(text), &learnt) == nil {
			all := append(known.KeySets, learnt.Keys...)
			_, known.KeySets = FollowKeySets(c.PublicKeys, all, time.Now().Unix())
			claims, err = c.verify(known, nonce)
		}
	}
	if text, _ := json.Marshal(known); err == nil && (keepsNo || claims["valid"] == true) {
		if err = os.WriteFile(c.Path+"."+nonce, text, 0o600); err == nil {
			err = os.Rename(c.Path+"."+nonce, c.Path)
		}
	}
	return status(claims, err)
}

func (c *Client) send(method, path string, body any) (string, error) {
	text, _ := json.Marshal(body)
	request, err := http.NewRequest(method, strings.TrimRight(c.URL, "/")+"/v3/"+path, strings.NewReader(string(text)))
	if err != nil {
		return "", err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/jwt, application/problem+json, */*;q=0.1"}}
	answer, err := c.HTTP.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	found, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if problem := (&Error{"unreachable", answer.Status}); err == nil && answer.StatusCode >= 400 {
		if err = problem; answer.StatusCode < 500 && answer.StatusCode != 429 {
			_ = json.Unmarshal(found, problem)
		}
	}
	return string(found), err
}
func orNull(text string) any { return map[bool]any{false: text}[text == ""] }

// The status that claims tell, or an error in their place.
func status(claims Claims, err error) Status {
	code, _ := claims["code"].(string)
	state, valid := states[code], claims["valid"] == true
	if problem, _ := err.(*Error); problem != nil && problem.Detail != disbelief {
		state = states[problem.Code]
	} else if err != nil {
		state = "unreachable_too_long"
	}
	if state == "" {
		state = map[bool]string{true: "valid", false: "not_activated"}[valid]
	}
	return Status{Valid: valid && err == nil, State: state, Claims: claims, Err: err}
}
