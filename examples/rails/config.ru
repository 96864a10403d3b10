# An application with two limits: logins by address, and all requests by user or address.
require "action_controller/railtie"
require "connection_pool"
require "ipaddr"
require "redis"
require_relative "rate_limit" # in an application, app/controllers/concerns/rate_limit.rb

class Shop < Rails::Application
  config.load_defaults 6.1
  config.root = __dir__
  config.eager_load = true
  config.hosts.clear
  config.secret_key_base = ENV.fetch("SECRET_KEY_BASE") { SecureRandom.hex(32) }
  config.logger = ActiveSupport::Logger.new($stderr, level: :warn)
  config.consider_all_requests_local = false
  # With the check, a request with the header Client-Ip is an error. The limiter does not use this header.
  config.action_dispatch.ip_spoofing_check = false

  routes.append do
    post "/login", to: "sessions#create"
    get "/api/items", to: "items#index"
  end
end

class ApplicationController < ActionController::API
  # Replace it by your authentication. It must verify the user: names that clients can invent would evade the limit.
  TOKENS = { "token-of-ann" => "ann", "token-of-bob" => "bob" }.freeze

  include RateLimit

  private

  def rate_limit_user
    TOKENS[request.authorization.to_s.delete_prefix("Bearer ")]
  end
end

class SessionsController < ApplicationController
  def create = render(json: { ok: true })
end

class ItemsController < ApplicationController
  def index = render(json: { items: [] })
end

Shop.initialize!
run Shop
