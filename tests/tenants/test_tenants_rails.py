"""Tenants of Rails: sign-ups, work and migrations as docs/frameworks.md has them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness import frameworks, needs, servers
from harness.frameworks import block, same, tables
from harness.servers import one
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.machine

REQUIRED = 'begin; require "rails"; require "active_record/railtie"; require "pg"; rescue LoadError; exit 1; end'
APPLICATION = """
require "rails"
require "active_record/railtie"
require_relative "../tenant"
class Example < Rails::Application
  config.load_defaults 6.1
  config.eager_load = false
  config.secret_key_base = "x"
  config.logger = Logger.new(nil)
end
"""
RAKEFILE = """
require_relative "config/application"
Rails.application.load_tasks
"""
FIRST = """
class First < ActiveRecord::Migration[6.1]
  def change
    create_table :users do |t|
      t.string :email, null: false, index: { unique: true }
      t.jsonb :tags, default: { a: "it's" }
    end
    create_table :posts do |t|
      t.references :user, null: false, foreign_key: true
      t.text :title, default: "new"
    end
    add_check_constraint :posts, "title <> ''", name: "titled"
  end
end
"""
SECOND = """
class Second < ActiveRecord::Migration[6.1]
  def change
    add_column :posts, :votes, :integer, null: false, default: 0
    rename_column :posts, :title, :name
    add_index :posts, "lower(name)"
  end
end
"""
WORK = """
require_relative "config/environment"
class User < ActiveRecord::Base; end
class Post < ActiveRecord::Base
  belongs_to :user
end
["tenant_1", "Odd \\" it's.2"].each { |name| Tenant.create(name) }
2.times do |number|
  Tenant.switch("tenant_1") { Post.create!(user: User.create!(email: "a#{number}@b")) }
  Tenant.switch("Odd \\" it's.2") { raise "seen" unless User.count == 0 and Post.first.nil? }
end
Tenant.switch("tenant_1") { raise "lost" unless Post.joins(:user).where(users: { email: "a1@b" }).first.id == 2 }
raise "left behind" unless User.count == 0
"""


def test_rails(cluster: Cluster, tmp_path: Path) -> None:
    if shutil.which("ruby") is None or subprocess.run(["ruby", "-e", REQUIRED], check=False).returncode != 0:
        needs.missing(needs.PACKAGES["rails"])
    files = {
        "tenant.rb": block("ruby", "module Tenant"),
        "Rakefile": RAKEFILE,
        # by it Rails knows where the application is
        "config.ru": "",
        "config/application.rb": APPLICATION,
        "config/environment.rb": 'require_relative "application"\nRails.application.initialize!\n',
        "config/database.yml": block("yaml", "TENANT") + "\ndevelopment:\n  <<: *default\n",
        "db/migrate/20260101000000_first.rb": FIRST,
        "work.rb": WORK,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PGHOST": str(cluster.socket_dir),
        "PGPORT": "5432",
        "PGUSER": "postgres",
    }

    def migrate(*names: str) -> None:
        for name in names:
            frameworks.run(["rake", "db:migrate"], tmp_path, {**variables, "TENANT": name})

    with servers.new_database(cluster, "mydb") as database, cluster.connect(database) as conn:
        conn.execute("CREATE SCHEMA model; CREATE SCHEMA own")
        frameworks.run(["rake", "db:migrate"], tmp_path, variables)
        frameworks.run(["ruby", "work.rb"], tmp_path, variables)
        migrate("own")
        same(cluster, database, "own", "model", "tenant_1", "Odd \" it's.2")
        (tmp_path / "db/migrate/20260102000000_second.rb").write_text(SECOND)
        migrate("model", "tenant_1", "own")
        same(cluster, database, "own", "model", "tenant_1")
        for name in ("model", "tenant_1"):
            assert tables(conn, name)["schema_migrations"] == tables(conn, "own")["schema_migrations"]
        assert one(conn, "SELECT array_agg(name ORDER BY id) FROM tenant_1.posts") == ["new", "new"]
