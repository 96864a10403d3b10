//go:build frameworks

package recipes

import (
	"path/filepath"
	"testing"
)

// TestRails runs Rails and Puma from the packages of Debian, if they have the versions of the Gemfile.
func TestRails(t *testing.T) {
	testRecipe(t, recipe{
		folder: "rails", proxies: "TRUSTED_PROXIES", trusted: proxy,
		prepare: func(t *testing.T, dir, port string) []string {
			command(t, dir, "bundle", "install", "--local", "--quiet")
			return []string{"bundle", "exec", "puma", "--environment", "production", "--bind", "tcp://127.0.0.1:" + port, "config.ru"}
		},
	})
}

// TestSpring builds the application with Maven.
func TestSpring(t *testing.T) {
	built := false
	testRecipe(t, recipe{
		folder: "spring", proxies: "TRUSTED_PROXIES", trusted: `127\.0\.0\.1`,
		prepare: func(t *testing.T, dir, _ string) []string {
			if !built {
				command(t, dir, "mvn", "-B", "-ntp", "-q", "package")
				built = true
			}
			return []string{"java", "-jar", filepath.Join("target", "shop.jar")}
		},
	})
}

// TestLaravel runs Laravel from the package php-laravel-framework of Debian, in the web server of PHP with several processes.
func TestLaravel(t *testing.T) {
	testRecipe(t, recipe{
		folder: "laravel", proxies: "TRUSTED_PROXIES", trusted: proxy, env: []string{"PHP_CLI_SERVER_WORKERS=4"},
		prepare: func(_ *testing.T, _, port string) []string {
			return []string{"php", "-S", "127.0.0.1:" + port, "public/index.php"}
		},
	})
}
