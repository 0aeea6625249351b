-- `_sendbatch`: a thousand JSON messages of 200 bytes each, for one queue, built once.
local message = '{"pad":"' .. string.rep("x", 190) .. '"}'
wrk.method = "POST"
wrk.body = '{"q":[' .. string.rep(message .. ",", 999) .. message .. "]}"
wrk.headers["Content-Type"] = "application/json"
