package recipes

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExpress(t *testing.T) {
	modules := filepath.Join(installed(t, example("express/package-lock.json"), "npm", func(folder string) {
		copyFile(t, example("express/package.json"), folder)
		copyFile(t, example("express/package-lock.json"), folder)
		command(t, folder, "npm", "ci", "--no-audit", "--no-fund")
	}), "node_modules")
	testRecipe(t, recipe{
		folder: "express", proxies: "TRUSTED_PROXIES", trusted: proxy,
		prepare: func(t *testing.T, dir, _ string) []string {
			link := filepath.Join(dir, "node_modules")
			if err := os.Symlink(modules, link); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			return []string{"node", "app.js"}
		},
	})
}

func TestFastAPI(t *testing.T) {
	venv := installed(t, example("fastapi/requirements.txt"), "python3", func(folder string) {
		command(t, folder, "python3", "-m", "venv", folder)
		command(t, folder, filepath.Join(folder, "bin", "pip"), "install", "-q", "-r", absolute(t, example("fastapi/requirements.txt")))
	})
	testRecipe(t, recipe{
		folder: "fastapi", proxies: "FORWARDED_ALLOW_IPS", trusted: proxy,
		prepare: func(_ *testing.T, _, port string) []string {
			return []string{filepath.Join(venv, "bin", "uvicorn"), "app:app", "--port", port}
		},
	})
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
