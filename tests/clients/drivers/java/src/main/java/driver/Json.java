package driver;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Writes lines of JSON to the standard output. */
final class Json {
    private Json() {}

    static void write(Map<String, ?> fields) {
        System.out.println(text(fields));
        System.out.flush();
    }

    private static String text(Object value) {
        if (value instanceof Map<?, ?> fields) {
            return fields.entrySet().stream().map(field -> quote(String.valueOf(field.getKey())) + ": " + text(field.getValue()))
                    .collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Json::text).collect(Collectors.joining(", ", "[", "]"));
        }
        return value instanceof Number || value instanceof Boolean ? value.toString() : quote(String.valueOf(value));
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        text.chars().forEach(c -> quoted.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", c) : String.valueOf((char) c)));
        return quoted.append('"').toString();
    }
}
