-- Sessions of the console that were signed out of before their time, each with the instant at which it would have ended by
-- itself: "id:until " one behind the other, so that one more is added without reading the others.
ALTER TABLE api_key ADD COLUMN ended_sessions TEXT;
