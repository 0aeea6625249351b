-- Single sends of 200 bytes by the SQS API in JSON. The arguments are the URL of the queue, and the header
-- `Authorization`.
local whole = nil

function init(args)
    wrk.method = "POST"
    wrk.body = '{"QueueUrl":"' .. args[1] .. '","MessageBody":"' .. string.rep("x", 200) .. '"}'
    wrk.headers["Content-Type"] = "application/x-amz-json-1.0"
    wrk.headers["X-Amz-Target"] = "AmazonSQS.SendMessage"
    wrk.headers["Authorization"] = args[2]
    whole = wrk.format()
end

function request()
    return whole
end
